"""Absent sources leave before a kernel starts: what is not there cannot change how sums round.

A source of presence 0 has weight 0 in every kernel. But a processor blocks a sum over more terms
differently, so even a term of 0 may flip last bits of the others. Hence the present sources come
first, in their order, and positions that no batch element needs are dropped. A NULL source
inserted anywhere then leaves the kernel's input, and so its output, bit for bit as it was; where
another batch element has more sources, it is a term of 0 at the end.

This reads values, so it happens on a CPU outside ``torch.compile``. Elsewhere, and where keys and
values are too large to be copied lightly, absent sources stay where they are, and their weight of
0 alone silences them.

Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Keys and values together, 64 MiB of float32: beyond it none is moved.
MAX_MOVED = 2**24


def present_first(
    k_BhJD: Tensor, v_BhJD: Tensor, p_BJ: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return keys, values, presences and mask with absent sources at the end or gone.

    One source is kept at least, so that gradients still have a path. Nothing is copied unless an
    absent source stands before a present one. ``mask`` has four axes, each of full size or 1.
    """
    unmoved = k_BhJD, v_BhJD, p_BJ, mask
    if p_BJ.device.type != "cpu" or torch.compiler.is_compiling():
        return unmoved
    present_BJ = p_BJ.detach() != 0
    if present_BJ.all():
        return unmoved
    kept = max(1, int(present_BJ.sum(-1).amax()))
    each_source = mask is not None and mask.shape[-1] > 1
    if (present_BJ[:, 1:] <= present_BJ[:, :-1]).all():
        mask = mask[..., :kept] if mask is not None and each_source else mask
        return k_BhJD[:, :, :kept], v_BhJD[:, :, :kept], p_BJ[:, :kept], mask
    if k_BhJD.numel() + v_BhJD.numel() > MAX_MOVED:
        return unmoved
    order_BJ = present_BJ.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :kept]
    if mask is not None and each_source:
        mask = torch.take_along_dim(mask, order_BJ[:, None, None, :], -1)
    return _take(k_BhJD, order_BJ), _take(v_BhJD, order_BJ), p_BJ.gather(1, order_BJ), mask


def _take(x_BhJD: Tensor, order_BJ: Tensor) -> Tensor:
    """Return the sources in ``order_BJ`` in the memory layout of ``x``, which kernels round by."""
    batch, heads = x_BhJD.shape[:2]
    batch_B1 = torch.arange(batch)[:, None]
    if x_BhJD.is_contiguous():
        return x_BhJD[batch_B1[:, None], torch.arange(heads)[:, None], order_BJ[:, None]]
    return x_BhJD.transpose(1, 2)[batch_B1, order_BJ].transpose(1, 2)
