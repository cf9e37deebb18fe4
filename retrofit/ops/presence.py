"""Presence: how much of a token is there, read from its carrier.

    p = n / (tau + n),   n = ||h||^2

p lies in [0, 1]; it is exactly 0 at the origin and tends to 1 as ``||h||`` grows. It gates what a
token emits and is the mass with which the token enters what others share.

Source: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and O-Closure for
Token Dynamics", arXiv 2608.21174, 2026 (presence).
Shapes: ``...`` any leading axes, E model width.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import TypeAlias

import torch
from torch import Tensor

from retrofit.ops.errors import OperatorError, ShapeError

Tau: TypeAlias = float | Tensor
"""Scale of the presence: a positive finite number, or a tensor of such that broadcasts to p."""


NO_FLOAT64 = frozenset({"mps"})
"""Kinds of devices that have no float64."""


def presence(h: Tensor, tau: Tau) -> Tensor:
    """Return the presence of each carrier, (..., E) -> (...).

    The squared norm is taken in float64, so that float32 carriers from 1e-18 to 1e18 neither
    underflow nor overflow and p is right to the last bit or two. Computed as a ratio, never as
    ``1 - tau / (tau + n)``, which cancels for small n. Squared norms that overflow float64
    saturate to p = 1; p underflows to 0 only where n / tau is below the smallest float32. Devices
    without float64 divide by the largest component first, at the cost of another bit or two.

    Args:
        h: Carriers, (..., E), floating point.
        tau: Positive finite number, or a tensor that broadcasts to (...); values in a tensor are
            the caller's promise and are not read.

    Returns:
        p in float32 for float32 and narrower carriers, in float64 for float64 ones.

    Raises:
        OperatorError: ``tau`` is a number that is not positive and finite, or ``h`` is not
            floating point.
    """
    if not h.is_floating_point():
        raise OperatorError(f"carriers must be floating point, got {h.dtype}")
    if not isinstance(tau, Tensor):
        check_tau(tau)
    if h.device.type in NO_FLOAT64:
        return _presence_without_float64(h.to(torch.float32), tau)
    return presence_from(squared_norm(h), tau, work_dtype(h.dtype))


def presence_from(n: Tensor, tau: Tau, dtype: torch.dtype) -> Tensor:
    """Return the presences, in ``dtype``, of carriers whose squared norms are ``n``, (...)."""
    if n.dtype == torch.float64:
        n = n.clamp(max=torch.finfo(torch.float64).max)
    return (n / (n + tau)).to(dtype)


def presence_of(h: Tensor, tau: Tau, known: Tensor | None) -> Tensor:
    """Return ``known``, the presence (...) of ``h`` (..., E) that a caller has, or compute it.

    Raises:
        ShapeError: ``known`` is not one presence per carrier.
    """
    if known is None:
        return presence(h, tau)
    if known.shape != h.shape[:-1]:
        raise ShapeError(
            f"presence must be {tuple(h.shape[:-1])}, one per carrier, got {tuple(known.shape)}"
        )
    return known


def check_tau(tau: float) -> None:
    """Raise ``OperatorError`` unless ``tau`` is a positive finite number."""
    if not (isinstance(tau, Real) and math.isfinite(tau) and tau > 0):
        raise OperatorError(f"tau must be a positive finite number, got {tau!r}")


def work_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype that presences and softmax weights of ``dtype`` tensors are held in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def squared_norm(h: Tensor) -> Tensor:
    """Return the squared norm of each carrier in float64, (..., E) -> (...)."""
    if torch.is_grad_enabled() and h.requires_grad:
        # The gradient of a norm is undefined at 0; that of the sum of squares is not.
        return h.to(torch.float64).square().sum(-1)
    norm: Tensor = torch.linalg.vector_norm(h, dim=-1, dtype=torch.float64)
    return norm.square()


def _presence_without_float64(h: Tensor, tau: Tau) -> Tensor:
    # n = m^2 s with s in [1, E], so p = s / (s + tau / m^2) leaves float32's range only at p = 0.
    m = h.detach().abs().amax(-1, keepdim=True).clamp(min=torch.finfo(h.dtype).tiny)
    s = (h / m).square().sum(-1)
    m = m.squeeze(-1)
    return s / (s + tau / m / m)
