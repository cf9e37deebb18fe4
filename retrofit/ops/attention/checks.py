"""What OAttention refuses, with the sentence that says what to do.

Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width, d value width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from retrofit.ops.attention.support import holds_values
from retrofit.ops.errors import OperatorError, ShapeError
from retrofit.words import EPS_MODES

_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def check_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    p_receivers: Tensor | None,
    p_sources: Tensor,
    mask: Tensor | None,
    eps_den: float,
    eps_mode: str,
) -> None:
    """Raise ``ShapeError`` or ``OperatorError`` unless the arguments fit together.

    Shapes, dtypes and settings are read; of values, where they can be read, those of a float mask.
    """
    if not (q.dim() == k.dim() == v.dim() == 4):
        raise ShapeError(
            "q, k and v must be (B, H, tokens, D), got "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    batch, heads, receivers, width = q.shape
    kv_batch, kv_heads, sources, kv_width = k.shape
    if kv_batch != batch or kv_width != width or v.shape[:3] != k.shape[:3]:
        raise ShapeError(
            "k must be (B, h, J, D) and v (B, h, J, d) for q (B, H, S, D), got "
            f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
        )
    if kv_heads != heads and (kv_heads == 0 or heads % kv_heads):
        raise ShapeError(f"{heads} query heads are not a multiple of {kv_heads} kv heads")
    if not (q.dtype == k.dtype == v.dtype) or q.dtype not in _DTYPES:
        raise ShapeError(
            f"q, k and v must share one floating dtype, got {q.dtype}, {k.dtype}, {v.dtype}"
        )
    if p_sources.shape != (batch, sources):
        raise ShapeError(
            f"p_BJ must be {(batch, sources)} for k {tuple(k.shape)}, got {tuple(p_sources.shape)}"
        )
    if p_receivers is not None and p_receivers.shape != (batch, receivers):
        raise ShapeError(
            f"p_BS must be {(batch, receivers)} for q {tuple(q.shape)}, "
            f"got {tuple(p_receivers.shape)}"
        )
    if mask is not None:
        _check_mask(mask, (batch, heads, receivers, sources))
    if not (math.isfinite(eps_den) and eps_den >= 0):
        raise OperatorError(f"eps_den must be finite and not negative, got {eps_den!r}")
    if eps_mode not in EPS_MODES:
        raise OperatorError(f"eps_mode must be 'absolute' or 'relative', got {eps_mode!r}")


def _check_mask(mask: Tensor, full: tuple[int, int, int, int]) -> None:
    fits = mask.dim() <= 4 and all(
        size in (1, want) for size, want in zip(reversed(mask.shape), reversed(full), strict=False)
    )
    if not fits:
        raise ShapeError(f"mask must broadcast to (B, H, S, J) = {full}, got {tuple(mask.shape)}")
    if mask.dtype != torch.bool and not mask.dtype.is_floating_point:
        raise ShapeError(f"mask must be bool or floating point in [0, 1], got {mask.dtype}")
    if mask.dtype != torch.bool and mask.numel() and holds_values(mask):
        low, high = (float(end) for end in mask.detach().aminmax())
        if not (low >= 0 and high <= 1):
            raise OperatorError(
                f"a float mask holds gates in [0, 1], and this one holds {low:g} to {high:g}; an "
                "additive mask, of 0 and -inf, is given as the bool mask `mask == 0`"
            )
