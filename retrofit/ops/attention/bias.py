"""What every attention kernel needs before it starts: inert absent tokens, and the score bias.

Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from retrofit.ops.attention.support import any_absent, may_read_values
from retrofit.ops.presence import work_dtype

# A thousandth of float32's range, so that no sum of products on the way there leaves it.
_ORDINARY = torch.finfo(torch.float32).max / 1e3


def silence_absent(
    q_BHSD: Tensor, k_BhJD: Tensor, v_BhJD: Tensor, p_BJ: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Return keys and values in which nothing an absent token holds can reach a receiver.

    A weight of 0 silences finite scores and values. Where others are possible, whatever stands in
    absent tokens is set to 0. Where values may be read, nothing is copied without need.
    """
    if not any_absent(p_BJ):
        return k_BhJD, v_BhJD
    if may_read_values(p_BJ) and _all_ordinary(q_BHSD, k_BhJD, v_BhJD, scale):
        return k_BhJD, v_BhJD
    absent_B1J1 = (p_BJ == 0)[:, None, :, None]
    # Not masked_fill, which would change the memory layout, and with it how kernels round.
    return torch.where(absent_B1J1, 0.0, k_BhJD), torch.where(absent_B1J1, 0.0, v_BhJD)


def _all_ordinary(q_BHSD: Tensor, k_BhJD: Tensor, v_BhJD: Tensor, scale: float) -> bool:
    """Say whether all values are finite, and all scores far from the end of float32's range."""
    q, k, v = (_norm(x) for x in (q_BHSD, k_BhJD, v_BhJD))
    # No number exceeds the norm of its tensor, and no score the product of two norms.
    return max(q * max(1.0, abs(scale)) * max(k, 1.0), k, v) < _ORDINARY


def _norm(x: Tensor) -> float:
    """Euclidean norm over all axes, which torch sums far faster than it finds a maximum."""
    return float(torch.linalg.vector_norm(x.detach(), dtype=work_dtype(x.dtype)))


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
