"""Norm and presence of a carrier from one reduction: the short way of hosts on a CPU.

``presence`` takes the squared norm in float64, which costs more than an RMSNorm. Here it is
taken in float32, once for the presence and the norm, and again in float64 for those carriers only
whose squared norm leaves the range in which float32 is safe: from 1e-18 to 1e18, and beyond, all
presences stay right. The relative error of a float32 sum, some ulp, moves a presence by (1 - p)
times itself.

Shapes: ``...`` any leading axes, E model width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from retrofit.ops.attention.support import may_read_values
from retrofit.ops.presence import presence_from, squared_norm, work_dtype

# Squares of components that underflow are lost, 1e-38 each at most; sums stay far from overflow.
SAFE = (1e-28, 1e37)


def one_squared_norm(h: Tensor) -> Tensor | None:
    """Return the squared norm of each carrier, (..., E) -> (...); None where this way is closed.

    It is open on a CPU where values may be read and need no gradient, for float32 (float64 then
    has but one way). In float32, or in float64 if any carrier needs it.
    """
    if (torch.is_grad_enabled() and h.requires_grad) or not (h.numel() and may_read_values(h)):
        return None
    if h.dtype == torch.float64:
        return squared_norm(h)
    if h.dtype != torch.float32:
        return None
    n: Tensor = torch.linalg.vector_norm(h, dim=-1).square_()
    smallest, largest = n.aminmax()
    if float(smallest) >= SAFE[0] and float(largest) <= SAFE[1]:
        return n
    outside = ~((n >= SAFE[0]) & (n <= SAFE[1]))
    n = n.double()
    n[outside] = squared_norm(h[outside])
    return n


def presence_by(n: Tensor, tau: float, dtype: torch.dtype) -> Tensor:
    """Return the presences, (...), of carriers of ``dtype`` whose squared norms are ``n``."""
    return presence_from(n if SAFE[0] <= tau <= SAFE[1] else n.double(), tau, work_dtype(dtype))


def rms_norm(norm: nn.RMSNorm, h: Tensor, n: Tensor, p: Tensor | None = None) -> Tensor:
    """Return ``norm(h)``, or ``p * norm(h)``, (..., E), of carriers with squared norms ``n``."""
    eps = torch.finfo(h.dtype).eps if norm.eps is None else norm.eps
    factor = torch.rsqrt(n / h.shape[-1] + eps)
    if p is not None:
        factor = p * factor
    x = h * factor.to(h.dtype).unsqueeze(-1)
    if norm.weight is None:
        return x
    if torch.is_grad_enabled() and norm.weight.requires_grad:
        return x * norm.weight
    return x.mul_(norm.weight)
