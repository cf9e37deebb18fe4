"""The kernels of OAttention by name, and those of them that hold S x J scores.

A kernel returns the attention with the receivers' gate, in its own dtype. Where it multiplies or
divides its output by a number per receiver anyway, the gate is part of that number.

Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from retrofit.ops.attention.bias import log_weights
from retrofit.ops.attention.formula import naive_oattention
from retrofit.ops.attention.fused import fused_lse, fused_sink
from retrofit.ops.attention.support import may_read_values
from retrofit.ops.presence import work_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrofit.ops.attention.dispatch import KernelName

# 64 MiB of float32 scores: beyond it, receivers are taken in parts.
MAX_SCORES = 2**24

_WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.float64: torch.float64,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """The tensors and settings of one attention, checked, with absent tokens silenced."""

    q_BHSD: Tensor
    k_BhJD: Tensor
    v_BhJD: Tensor
    p_BS: Tensor | None
    """None where the caller gates its own output."""
    p_BJ: Tensor
    """Presences, in float32 at least."""
    mask: Tensor | None
    """Four axes, each of full size or 1."""
    eps_den: float
    relative: bool
    scale: float


def run_kernel(name: KernelName, problem: Problem) -> Tensor:
    """Run the kernel called ``name``."""
    return _KERNELS[name](problem)


def _naive(x: Problem) -> Tensor:
    k_BHJD, v_BHJD = _share_heads(x)
    settings = x.eps_den, x.relative, x.scale
    out_BHSD = naive_oattention(x.q_BHSD, k_BHJD, v_BHJD, x.p_BJ, x.mask, *settings)
    return _gated(out_BHSD, None, x.p_BS)


def _exact(x: Problem) -> Tensor:
    """Run the naive formula in the next wider dtype; float64 has none and stays float64."""
    dtype = _WIDER[x.q_BHSD.dtype]
    k_BHJD, v_BHJD = (y.to(dtype) for y in _share_heads(x))
    p_BJ = x.p_BJ.to(dtype)
    settings = x.eps_den, x.relative, x.scale

    def part(q_BHSD: Tensor, mask: Tensor | None, p_BS: Tensor | None) -> Tensor:
        out_BHSD = naive_oattention(q_BHSD.to(dtype), k_BHJD, v_BHJD, p_BJ, mask, *settings)
        return _gated(out_BHSD, None, p_BS)

    return _by_receivers(part, x)


def _direct(x: Problem) -> Tensor:
    """Run the formula in few passes over the scores, in float32 at least.

    Presences multiply values and mass, never the scores' exponents: ``log p`` would lose its last
    bits beside a large score, and its gradient would overflow at a small p.
    """
    dtype = work_dtype(x.q_BHSD.dtype)
    k_BHJD, v_BHJD = (y.to(dtype) for y in _share_heads(x))
    full = x.mask is not None and x.mask.shape[2] > 1
    mp_BHJ = x.p_BJ[:, None, :]
    if x.mask is not None and not full:
        mp_BHJ = mp_BHJ * x.mask[:, :, 0].to(mp_BHJ.dtype)
    mp_BHJ1 = mp_BHJ.expand(v_BHJD.shape[:3]).unsqueeze(-1)
    kT_NDJ, mp_NJ1, mpv_NJD = _merge(k_BHJD).mT, _merge(mp_BHJ1), _merge(v_BHJD * mp_BHJ1)

    def part(q_BHSD: Tensor, mask: Tensor | None, p_BS: Tensor | None) -> Tensor:
        hidden = mp_BHJ.unsqueeze(2) == 0
        if full and mask is not None:
            hidden = hidden | (mask == 0)
        heads = q_BHSD.shape[:2]
        q_NSD = _merge(q_BHSD.to(dtype))
        if may_read_values(hidden) and not bool(hidden.any()):
            # beta=0 leaves the bias unread, and rounds as a bias of zeros does.
            s_NSJ = torch.baddbmm(q_NSD.new_empty(1, 1, 1), q_NSD, kT_NDJ, beta=0, alpha=x.scale)
        else:
            bias = torch.zeros_like(hidden, dtype=dtype).masked_fill_(hidden, -torch.inf)
            bias_NSJ = _merge(bias.expand(*heads, *bias.shape[2:]))
            s_NSJ = torch.baddbmm(bias_NSJ, q_NSD, kT_NDJ, alpha=x.scale)
        top_NS1 = _top(s_NSJ, 0.0 if x.relative else x.eps_den)
        terms_NSJ = s_NSJ.sub_(top_NS1).exp_()
        if full and mask is not None and mask.dtype != torch.bool:
            terms_NSJ = terms_NSJ * _merge(mask.to(dtype).expand(*heads, *mask.shape[2:]))
        mass_NS1 = torch.bmm(terms_NSJ, mp_NJ1)
        if x.relative:
            mass_NS1 = mass_NS1 + x.eps_den * (terms_NSJ * mp_NJ1.mT).amax(-1, keepdim=True)
        elif x.eps_den > 0.0:
            mass_NS1 = mass_NS1 + torch.exp(math.log(x.eps_den) - top_NS1)
        if x.relative or x.eps_den == 0.0:
            mass_NS1 = mass_NS1.masked_fill(mass_NS1 == 0.0, 1.0)
        out_NSD = torch.bmm(terms_NSJ, mpv_NJD)
        if not _is_ours(out_NSD):
            out_NSD = out_NSD / mass_NS1
            return _gated(out_NSD.view(*heads, *out_NSD.shape[1:]), None, p_BS)
        if p_BS is not None:
            # An absent receiver divides by infinity.
            mass_NS1 = mass_NS1 / _merge(p_BS[:, None, :, None].expand(*heads, -1, 1))
        return out_NSD.div_(mass_NS1).view(*heads, *out_NSD.shape[1:])

    return _by_receivers(part, x)


def _top(s_NSJ: Tensor, eps: float) -> Tensor:
    """Return the shift of each receiver's scores: finite, and at least ``log eps``."""
    top_NS1 = s_NSJ.detach().amax(-1, keepdim=True)
    if eps > 0.0:
        return top_NS1.clamp(min=math.log(eps))
    return top_NS1.masked_fill(top_NS1 == -torch.inf, 0.0)


def _fused_lse(x: Problem) -> Tensor:
    bias = log_weights(x.p_BJ, x.mask)
    return _gated(*fused_lse(x.q_BHSD, x.k_BhJD, x.v_BhJD, bias, x.eps_den, x.scale), x.p_BS)


def _fused_sink(x: Problem) -> Tensor:
    bias = log_weights(x.p_BJ, x.mask)
    out_BHSD = fused_sink(x.q_BHSD, x.k_BhJD, x.v_BhJD, bias, x.eps_den, x.scale)
    return _gated(out_BHSD, None, x.p_BS)


def _gated(out_BHSD: Tensor, factor_BHS: Tensor | None, p_BS: Tensor | None) -> Tensor:
    """Multiply by what the kernel left to be multiplied on, and by the receivers' presence."""
    if p_BS is not None:
        p_B1S = p_BS[:, None, :]
        factor_BHS = p_B1S if factor_BHS is None else factor_BHS * p_B1S
    if factor_BHS is None:
        return out_BHSD
    factor_BHS1 = factor_BHS.unsqueeze(-1)
    return out_BHSD.mul_(factor_BHS1) if _is_ours(out_BHSD) else out_BHSD * factor_BHS1


def _is_ours(out: Tensor) -> bool:
    """Say whether a kernel's fresh output may be overwritten; autograd and transforms object."""
    return not torch.is_grad_enabled() and may_read_values(out)


def _by_receivers(
    part: Callable[[Tensor, Tensor | None, Tensor | None], Tensor], x: Problem
) -> Tensor:
    """Apply ``part`` to all receivers at once, or in parts that bound the scores held."""
    q_BHSD, mask = x.q_BHSD, x.mask
    batch, heads, receivers, _ = q_BHSD.shape
    scores_per_receiver = batch * heads * x.k_BhJD.shape[2]
    if torch.compiler.is_compiling() or receivers * scores_per_receiver <= MAX_SCORES:
        return part(q_BHSD, mask, x.p_BS)
    rows = max(1, MAX_SCORES // scores_per_receiver)
    parts = []
    for start in range(0, receivers, rows):
        window = slice(start, start + rows)
        seen = mask if mask is None or mask.shape[2] == 1 else mask[:, :, window]
        p_BS = None if x.p_BS is None else x.p_BS[:, window]
        parts.append(part(q_BHSD[:, :, window], seen, p_BS))
    return torch.cat(parts, dim=2)


def _share_heads(x: Problem) -> tuple[Tensor, Tensor]:
    groups = x.q_BHSD.shape[1] // x.k_BhJD.shape[1]
    if groups == 1:
        return x.k_BhJD, x.v_BhJD
    return x.k_BhJD.repeat_interleave(groups, 1), x.v_BhJD.repeat_interleave(groups, 1)


def _merge(y: Tensor) -> Tensor:
    return y.flatten(0, 1)


_KERNELS: dict[KernelName, Callable[[Problem], Tensor]] = {
    "naive": _naive,
    "exact": _exact,
    "direct": _direct,
    "fused_lse": _fused_lse,
    "fused_sink": _fused_sink,
}
