"""Absent sources leave before a kernel starts: what is not there cannot change how sums round.

A source of presence 0 has weight 0 in every kernel. But a processor blocks a sum over more terms
differently, so even a term of 0 may flip last bits of the others. Hence the present sources come
first, in their order, and positions that no batch element needs are dropped. A NULL source
inserted anywhere then leaves the kernel's input as it was, down to its layout in memory, and so
every bit of its output, on these conditions:

- a CPU, outside ``torch.compile``, tracing and ``torch.func``'s transforms, since values are read;
- keys and values that are contiguous, or are views of contiguous (B, J, h, D), as projections make
  them, and hold no more than ``MAX_MOVED`` numbers together;
- no other batch element has more present sources. Where one has, the NULL source becomes a term of
  0 at the end of the sums.

Elsewhere absent sources stay where they are, and their weight of 0 alone silences them.

Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Inside vmap a tensor stands for many. Torch has no public way to ask; where this private one is
# gone, torch itself refuses to read values there.
_transform = getattr(torch._C._functorch, "peek_interpreter_stack", lambda: None)

# Keys and values together, 64 MiB of float32: beyond it none is moved.
MAX_MOVED = 2**24


def any_absent(p_BJ: Tensor) -> bool:
    """Say whether a source is absent; where values may not be read, that one may be."""
    return not may_read_values(p_BJ) or bool((p_BJ.detach() == 0).any())


def may_read_values(x: Tensor) -> bool:
    """Say whether what happens next may depend on the numbers in ``x``, at no great cost."""
    return x.device.type == "cpu" and holds_values(x)


def holds_values(x: Tensor) -> bool:
    """Say whether there are numbers in ``x`` that can be read now, at whatever cost."""
    tracing: bool = torch.jit.is_tracing()  # type: ignore[no-untyped-call]
    if tracing or torch.compiler.is_compiling() or _transform() is not None:
        return False
    capturing = x.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    return not (capturing or x.is_meta)


def receiver_presence(p_BS: Tensor, p_BJ: Tensor, mask: Tensor | None) -> Tensor:
    """Return the presences of receivers, (B, S), with 0 for those that no source supports.

    OAttention of an empty support is 0 as a whole, whatever the bias of an output projection is.
    """
    if mask is None:
        supported_BS = (p_BJ != 0).any(-1, keepdim=True)
    else:
        seen_BHSJ = (p_BJ != 0)[:, None, None, :] & (mask[(None,) * (4 - mask.dim())] != 0)
        supported_BS = seen_BHSJ.any(-1).any(1)
    return p_BS.where(supported_BS, 0.0)


def present_first(
    k_BhJD: Tensor, v_BhJD: Tensor, p_BJ: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return keys, values, presences and mask with absent sources at the end or gone.

    One source is kept at least, so that gradients still have a path. ``mask`` has four axes, each
    of full size or 1.
    """
    if not may_read_values(p_BJ) or k_BhJD.numel() + v_BhJD.numel() > MAX_MOVED:
        return k_BhJD, v_BhJD, p_BJ, mask
    present_BJ = p_BJ.detach() != 0
    kept = max(1, int(present_BJ.sum(-1).amax()))
    order_BJ = present_BJ.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :kept]
    if mask is not None and mask.shape[-1] > 1:
        mask = torch.take_along_dim(mask, order_BJ[:, None, None, :], -1)
    return _take(k_BhJD, order_BJ), _take(v_BhJD, order_BJ), p_BJ.gather(1, order_BJ), mask


def _take(x_BhJD: Tensor, order_BJ: Tensor) -> Tensor:
    """Return the sources in ``order_BJ`` in the memory layout of ``x``, which kernels round by."""
    batch, heads = x_BhJD.shape[:2]
    batch_B1 = torch.arange(batch)[:, None]
    if x_BhJD.is_contiguous():
        return x_BhJD[batch_B1[:, None], torch.arange(heads)[:, None], order_BJ[:, None]]
    return x_BhJD.transpose(1, 2)[batch_B1, order_BJ].transpose(1, 2)
