"""What every attention kernel needs before it starts: inert absent tokens, and the score bias.

Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from retrofit.ops.dispatch import MaskKind


def silence_absent(k_BhJD: Tensor, v_BhJD: Tensor, p_BJ: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values with those of absent tokens set to 0, whatever stood there.

    On a CPU outside ``torch.compile`` nothing is copied where every token is present.
    """
    absent_BJ = p_BJ == 0
    if p_BJ.device.type == "cpu" and not torch.compiler.is_compiling() and not absent_BJ.any():
        return k_BhJD, v_BhJD
    absent_B1J1 = absent_BJ[:, None, :, None]
    return k_BhJD.masked_fill(absent_B1J1, 0.0), v_BhJD.masked_fill(absent_B1J1, 0.0)


def as_4d(mask: Tensor) -> Tensor:
    """Return the mask with leading axes of size 1, so that it has four."""
    return mask[(None,) * (4 - mask.dim())]


def mask_kind(mask: Tensor | None) -> MaskKind:
    """Say whether a mask depends on the receiver."""
    if mask is None:
        return "none"
    return "per_key" if mask.dim() < 2 or mask.shape[-2] == 1 else "full"


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
