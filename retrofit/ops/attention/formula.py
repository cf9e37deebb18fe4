"""OAttention: support-coupled attention that zero vectors take no part in.

    out_i = p_i * sum_j m_ij p_j exp(s_ij) v_j / (eps_den + sum_j m_ij p_j exp(s_ij))
    s_ij  = scale * <q_i, k_j>

``eps_den`` is on the raw scale: one more source with score ``log eps_den`` and value zero.
``eps_mode="relative"`` scales it by the receiver's largest term, ``max_j m_ij p_j exp(s_ij)``;
then only ratios of presences count, and a support that fades as a whole is felt until it is gone.
The scores are always shifted by their maximum before ``exp``. A receiver without support, an
empty source axis and a receiver of presence 0 give exactly 0.

This file holds the formula as it reads, the reference of every other kernel. ``functional.py``
has the function to call, ``layer.py`` the module with projections.

Source: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and O-Closure for
Token Dynamics", arXiv 2608.21174, 2026 (OAttention).
Shapes: B batch, S receivers, J sources, H heads, D head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def naive_oattention(
    q_BHSD: Tensor,
    k_BHJD: Tensor,
    v_BHJD: Tensor,
    p_BJ: Tensor,
    mask_BHSJ: Tensor | None,
    eps_den: float,
    relative: bool,
    scale: float,
) -> Tensor:
    """Return the formula without the receiver's factor ``p_i``, (B, H, S, D).

    Products of queries, keys and values are taken in their dtype, the weights in the dtype of
    ``p``. The maximum is taken over the support, so an absent source may score anything.
    """
    s_BHSJ = ((q_BHSD * scale) @ k_BHJD.mT).to(p_BJ.dtype)
    mp_BHSJ = p_BJ[:, None, None, :]
    if mask_BHSJ is not None:
        mp_BHSJ = mask_BHSJ.to(p_BJ.dtype) * mp_BHSJ
    s_BHSJ = s_BHSJ.masked_fill(mp_BHSJ == 0, -torch.inf)

    log_eps = math.log(eps_den) if eps_den > 0 else -math.inf
    top_BHS1 = s_BHSJ.detach().amax(-1, keepdim=True)
    if not relative:
        top_BHS1 = top_BHS1.clamp(min=log_eps)
    top_BHS1 = top_BHS1.masked_fill(top_BHS1 == -torch.inf, 0.0)

    terms_BHSJ = mp_BHSJ * torch.exp(s_BHSJ - top_BHS1)
    if relative:
        eps_BHS1 = eps_den * terms_BHSJ.amax(-1, keepdim=True)
    else:
        eps_BHS1 = torch.exp(log_eps - top_BHS1)
    mass_BHS1 = eps_BHS1 + terms_BHSJ.sum(-1, keepdim=True)
    weights_BHSJ = terms_BHSJ / mass_BHS1.masked_fill(mass_BHS1 == 0, 1.0)
    return weights_BHSJ.to(v_BHJD.dtype) @ v_BHJD
