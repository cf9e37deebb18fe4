"""What every attention kernel needs before it starts: inert absent tokens, and the score bias.

Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ORDINARY = torch.finfo(torch.float32).max ** 0.5 / 1e3


def silence_absent(k_BhJD: Tensor, v_BhJD: Tensor, p_BJ: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values in which nothing an absent token holds can reach a receiver.

    A weight of 0 silences all ordinary numbers. Where there are others, NaN and infinity among
    them, whatever stands in absent tokens is set to 0. On a CPU outside ``torch.compile`` nothing
    is copied without need.
    """
    absent_BJ = p_BJ == 0
    may_look = p_BJ.device.type == "cpu" and not torch.compiler.is_compiling()
    if may_look and (not absent_BJ.any() or (_ordinary(k_BhJD) and _ordinary(v_BhJD))):
        return k_BhJD, v_BhJD
    absent_B1J1 = absent_BJ[:, None, :, None]
    # Not masked_fill, which would change the memory layout, and with it how kernels round.
    return torch.where(absent_B1J1, 0.0, k_BhJD), torch.where(absent_B1J1, 0.0, v_BhJD)


def _ordinary(x: Tensor) -> bool:
    """Say whether all numbers are finite, and small enough that a score of theirs is."""
    # No number exceeds the Euclidean norm, which torch sums far faster than it finds a maximum.
    return bool(torch.linalg.vector_norm(x.detach()).item() < _ORDINARY)


def as_4d(mask: Tensor) -> Tensor:
    """Return the mask with leading axes of size 1, so that it has four."""
    return mask[(None,) * (4 - mask.dim())]


def log_weights(p_BJ: Tensor, mask: Tensor | None) -> Tensor:
    """Return ``log(m p)`` as the kernels add it to the scores, (B, 1|H, 1|S, J), in p's dtype.

    ``-inf`` where a source is absent or hidden. It has a receiver axis only if the mask has one.
    """
    bias = p_BJ.log()[:, None, None, :]
    if mask is None:
        return bias
    if mask.dtype == torch.bool:
        return torch.where(mask, bias, -torch.inf)
    return bias + mask.to(bias.dtype).log()
