"""The gate: what a token emits counts in proportion to its presence.

    gate(x, p) = p * x            add_gated(h, x, p) = h + p * x

Every operator of this package ends in one of the two, so each is written here and nowhere else.
A NULL token has p = 0, so nothing is emitted from it and nothing is added to it.

Source: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and O-Closure for
Token Dynamics", arXiv 2608.21174, 2026 (local maps).
Shapes: ``...`` any leading axes, E model width.
"""

from __future__ import annotations

import torch
from torch import Tensor


def gate(x: Tensor, p: Tensor) -> Tensor:
    """Return ``p * x``, (..., E) and (...) -> (..., E), in the dtype of ``x``."""
    return (p.unsqueeze(-1) * x).to(x.dtype)


def add_gated(h: Tensor, x: Tensor, p: Tensor | None, *, owned: bool = False) -> Tensor:
    """Return ``h + p * x``; ``x`` broadcasts to ``h`` (..., E), whose dtype the sum has.

    Without ``p``, ``h + x``. Where ``h`` is ``owned``, nobody else reads it, and it is overwritten
    unless a gradient needs it.
    """
    owned = owned and not (torch.is_grad_enabled() and (h.requires_grad or x.requires_grad))
    if p is None:
        return h.add_(x) if owned else (h + x).to(h.dtype)
    p = p.unsqueeze(-1)
    return h.addcmul_(x, p) if owned else torch.addcmul(h, x, p).to(h.dtype)
