"""Rotary positions by rank among the present tokens, so that a NULL token leaves no gap.

Shapes: B batch, S tokens, H heads, D head width, F = D / 2 frequencies.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class Rotary(Protocol):
    """What is used of a host's rotary embedding."""

    freqs: Tensor
    """Inverse frequencies (F,)."""
    interleaved: bool

    def rotate_queries_or_keys(self, t_BHSD: Tensor) -> Any:
        """Rotate every token by its index."""


def rotate_by_rank(rope: Rotary, t_BSHD: Tensor, present_BS: Tensor) -> Tensor:
    """Rotate each present token by the number of present ones before it.

    Equal to the host's own rotation where all are present. Where a NULL token is put does not
    matter: what is rotated is zero.
    """
    assert not rope.interleaved, "v3 rotates the halves of a head against each other"
    rank_BS = (present_BS.cumsum(-1) - 1).to(rope.freqs.dtype)
    angle_BS1F = (rank_BS[..., None] * rope.freqs)[:, :, None, :]
    cos, sin = angle_BS1F.cos(), angle_BS1F.sin()
    first, second = t_BSHD.chunk(2, dim=-1)
    rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return rotated.to(t_BSHD.dtype)
