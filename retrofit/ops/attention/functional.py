"""OAttention, the function to call: checks and the choice of the kernel.

The formula is in ``formula.py``.

Shapes: B batch, S receivers, J sources, H heads, h kv heads (H % h == 0), D head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from retrofit.ops.attention.bias import as_4d, silence_absent
from retrofit.ops.attention.checks import check_attention
from retrofit.ops.attention.dispatch import AttentionRequest, Backend, choose_kernel
from retrofit.ops.attention.kernels import Problem, run_kernel
from retrofit.ops.attention.recorder import count_kernel
from retrofit.ops.attention.support import any_absent, present_first
from retrofit.ops.presence import work_dtype
from retrofit.words import DEFAULT_EPS_DEN, DEFAULT_EPS_MODE, EpsMode


def oattention(
    q_BHSD: Tensor,
    k_BHJD: Tensor,
    v_BHJD: Tensor,
    p_BS: Tensor | None,
    p_BJ: Tensor,
    *,
    mask: Tensor | None = None,
    eps_den: float = DEFAULT_EPS_DEN,
    eps_mode: EpsMode = DEFAULT_EPS_MODE,
    scale: float | None = None,
    backend: Backend = "auto",
) -> Tensor:
    """Return OAttention of queries over keys and values, (B, H, S, D) in the dtype of ``q``.

    The dtype is that of the tensors that arrive; an enclosing autocast does not change it.

    Args:
        q_BHSD: Queries.
        k_BHJD: Keys; they and the values may have fewer heads, of which H is a multiple.
        v_BHJD: Values; their width may differ from the keys'.
        p_BS: Presence of the receivers; ``None`` where the caller gates its own output.
        p_BJ: Presence of the sources. Keys and values of sources of presence 0 are inert,
            whatever they hold, NaN included. Where values may be read they do not even reach the
            kernel, so that more or fewer of them change no bit (``support.py`` has the terms).
        mask: Visibility, broadcastable to (B, H, S, J): bool, True = visible, or in [0, 1].
        eps_den: Mass of the sink; 0 for none.
        eps_mode: Whether ``eps_den`` is absolute or relative to the receiver's largest term.
        scale: Factor of the scores; ``None`` for ``D ** -0.5``.
        backend: ``"auto"`` chooses by shape, dtype and device (``choose_kernel`` says what and
            why). ``"naive"`` is the formula as it reads. ``"exact"`` computes in the next wider
            dtype and rounds once; float64 has no wider one and stays float64. ``"direct"`` takes
            few passes over S x J scores, in float32 at least. ``"fused_lse"`` and
            ``"fused_sink"`` hold no scores; ``"fused"`` is either of them.

    Gradients flow to every tensor. That to the presence of an absent source is set to 0, which
    is not its one-sided derivative; through ``presence`` both are 0, at the origin.

    Raises:
        ShapeError: The tensors do not fit together.
        OperatorError: ``eps_den``, ``eps_mode`` or a float mask is out of range.
        KernelUnavailableError: ``backend`` cannot serve this request.
    """
    check_attention(q_BHSD, k_BHJD, v_BHJD, p_BS, p_BJ, mask, eps_den, eps_mode)
    p_BJ = p_BJ.to(work_dtype(q_BHSD.dtype))
    mask = None if mask is None else as_4d(mask)
    scale = q_BHSD.shape[-1] ** -0.5 if scale is None else scale
    if any_absent(p_BJ):
        k_BHJD, v_BHJD, p_BJ, mask = present_first(k_BHJD, v_BHJD, p_BJ, mask)
        k_BHJD, v_BHJD = silence_absent(q_BHSD, k_BHJD, v_BHJD, p_BJ, scale)
    choice = choose_kernel(_request(q_BHSD, k_BHJD, v_BHJD, p_BJ, mask, eps_mode), backend)
    if 0 in q_BHSD.shape or 0 in v_BHJD.shape:
        return q_BHSD.new_zeros((*q_BHSD.shape[:-1], v_BHJD.shape[-1]))
    if not torch.compiler.is_compiling():
        count_kernel(choice.name)

    relative = eps_mode == "relative"
    p_BS = None if p_BS is None else p_BS.to(p_BJ.dtype)
    problem = Problem(q_BHSD, k_BHJD, v_BHJD, p_BS, p_BJ, mask, eps_den, relative, scale)
    device_type = q_BHSD.device.type
    if torch.is_autocast_enabled(device_type):
        with torch.autocast(device_type, enabled=False):
            out_BHSD = run_kernel(choice.name, problem)
    else:
        out_BHSD = run_kernel(choice.name, problem)
    return out_BHSD.to(q_BHSD.dtype)


def _request(
    q_BHSD: Tensor,
    k_BHJD: Tensor,
    v_BHJD: Tensor,
    p_BJ: Tensor,
    mask: Tensor | None,
    eps_mode: EpsMode,
) -> AttentionRequest:
    grad = torch.is_grad_enabled()
    return AttentionRequest(
        sources=k_BHJD.shape[2],
        head_dim=q_BHSD.shape[3],
        value_dim=v_BHJD.shape[3],
        dtype=q_BHSD.dtype,
        device_type=q_BHSD.device.type,
        needs_grad=grad and (q_BHSD.requires_grad or k_BHJD.requires_grad or v_BHJD.requires_grad),
        bias_needs_grad=grad and (p_BJ.requires_grad or (mask is not None and mask.requires_grad)),
        eps_mode=eps_mode,
        compiling=torch.compiler.is_compiling(),
    )
