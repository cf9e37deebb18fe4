"""Caches of patched v3 hosts: with presence, and with what was NULL when they were built.

Shapes: B batch, N train rows, C columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from tabpfn.architectures.kv_cache import QUANTIZED_KV_DTYPE, KVCache
from tabpfn.architectures.tabpfn_v3 import TabPFNV3Cache
from torch import Tensor

from retrofit.hosts.kv_cache import PresentCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self


@dataclass
class PresentV3Cache(PresentCache, TabPFNV3Cache):
    """The cache of a patched v3 host: every key/value entry carries presence."""


@dataclass
class ClosedV3Cache(PresentV3Cache):
    """Key/value entries with presence, and the declared presence of train rows and columns."""

    train_rows: Tensor | None = None
    """(B, N); None if nothing was declared."""
    columns: Tensor | None = None
    """(B, C); None if nothing was declared."""

    def masks(self, train: int, columns: int) -> tuple[Tensor, Tensor]:
        """Presence of train rows (B, N) and columns (B, C), all True where nothing was declared."""
        if self.train_rows is not None and self.columns is not None:
            return self.train_rows, self.columns
        assert self.scaler_cache is not None
        batch, device = self.train_shape[0], self.scaler_cache["mean"].device
        shapes = (batch, train), (batch, columns)
        every_row, every_column = (torch.ones(s, dtype=torch.bool, device=device) for s in shapes)
        return every_row, every_column

    def to(self, device: torch.device | str) -> Self:
        """This cache on another device."""
        train_rows, columns = (
            None if mask is None else mask.to(device) for mask in (self.train_rows, self.columns)
        )
        return self.of(super().to(device), train_rows=train_rows, columns=columns)

    def quantize(self, dtype: torch.dtype = QUANTIZED_KV_DTYPE) -> Self:
        """This cache with quantised keys and values."""
        quantised = super().quantize(dtype)
        return self.of(quantised, train_rows=self.train_rows, columns=self.columns)

    @classmethod
    def concatenate(cls, caches: Sequence[KVCache]) -> Self:
        """One cache with the batch elements of ``caches`` in order; consumes them."""
        closed = [cls.of(cache) for cache in caches]
        joined = super().concatenate(caches)
        if all(cache.columns is None for cache in closed):
            return joined
        parts = []
        for cache in closed:
            assert cache.scaler_cache is not None
            parts.append(cache.masks(cache.train_shape[1], cache.scaler_cache["mean"].shape[-1]))
        train_rows, columns = (torch.cat(masks) for masks in zip(*parts, strict=False))
        return cls.of(joined, train_rows=train_rows, columns=columns)
