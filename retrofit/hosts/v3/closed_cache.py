"""The cache of a closed v3 host, which remembers what was NULL when it was built.

Shapes: B batch, N train rows, C columns.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from tabpfn.architectures.kv_cache import QUANTIZED_KV_DTYPE, KVCache
from torch import Tensor

from retrofit.hosts.kv_cache import PresentV3Cache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tabpfn.architectures.tabpfn_v3 import TabPFNV3Cache


@dataclass
class ClosedV3Cache(PresentV3Cache):
    """Key/value entries with presence, and the declared presence of train rows and columns."""

    train_rows: Tensor | None = None
    """(B, N); None if nothing was declared."""
    columns: Tensor | None = None
    """(B, C); None if nothing was declared."""

    @classmethod
    def of(
        cls,
        cache: TabPFNV3Cache,
        *,
        train_rows: Tensor | None = None,
        columns: Tensor | None = None,
    ) -> ClosedV3Cache:
        """The same content as ``cache``, with a declaration if one is given."""
        closed = cast("ClosedV3Cache", super().of(cache))
        if train_rows is None:
            return closed
        return dataclasses.replace(closed, train_rows=train_rows, columns=columns)

    def masks(self, train: int, columns: int) -> tuple[Tensor, Tensor]:
        """Presence of train rows (B, N) and columns (B, C), all True where nothing was declared."""
        if self.train_rows is not None and self.columns is not None:
            return self.train_rows, self.columns
        assert self.scaler_cache is not None
        batch, device = self.train_shape[0], self.scaler_cache["mean"].device
        shapes = (batch, train), (batch, columns)
        every_row, every_column = (torch.ones(s, dtype=torch.bool, device=device) for s in shapes)
        return every_row, every_column

    def to(self, device: torch.device | str) -> ClosedV3Cache:
        """This cache on another device."""
        moved = (None if m is None else m.to(device) for m in (self.train_rows, self.columns))
        train_rows, columns = moved
        return self.of(super().to(device), train_rows=train_rows, columns=columns)

    def quantize(self, dtype: torch.dtype = QUANTIZED_KV_DTYPE) -> ClosedV3Cache:
        """This cache with quantised keys and values."""
        quantised = super().quantize(dtype)
        return self.of(quantised, train_rows=self.train_rows, columns=self.columns)

    @classmethod
    def concatenate(cls, caches: Sequence[KVCache]) -> ClosedV3Cache:
        """One cache with the batch elements of ``caches`` in order; consumes them."""
        closed = [cls.of(cast("TabPFNV3Cache", cache)) for cache in caches]
        joined = super().concatenate(caches)
        if all(cache.columns is None for cache in closed):
            return cls.of(joined)
        parts = []
        for cache in closed:
            assert cache.scaler_cache is not None
            parts.append(cache.masks(cache.train_shape[1], cache.scaler_cache["mean"].shape[-1]))
        train_rows, columns = (torch.cat(masks) for masks in zip(*parts, strict=False))
        return cls.of(joined, train_rows=train_rows, columns=columns)
