"""Key/value caches that remember the presence of the rows they were made from.

A cached key no longer shows the carrier it came from, so presence is stored beside it.
Shapes: B batch, N train rows, C columns, H key/value heads, D head width.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import torch
from tabpfn.architectures.kv_cache import (
    QUANTIZED_KV_DTYPE,
    KVCache,
    KVCacheEntry,
    QuantizedKVCacheEntry,
)
from torch import Tensor

from retrofit.errors import UnsupportedModeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self


@dataclass
class PresentKVCacheEntry(KVCacheEntry):
    """Keys and values (B, N, H, D) with the presence (B, N) of their rows, never quantised."""

    presence: Tensor | None = None

    def to(self, device: torch.device | str) -> PresentKVCacheEntry:
        """This entry on another device."""
        if not self.is_valid():
            return PresentKVCacheEntry()
        return PresentKVCacheEntry(**vars(super().to(device)), presence=_moved(self, device))

    def quantize(self, dtype: torch.dtype = QUANTIZED_KV_DTYPE) -> PresentQuantizedKVCacheEntry:
        """Keys and values quantised to ``dtype``; presence as it is."""
        return PresentQuantizedKVCacheEntry(**vars(super().quantize(dtype)), presence=self.presence)

    @staticmethod
    def concatenate(entries: Sequence[KVCacheEntry]) -> PresentKVCacheEntry:
        """One entry with the batch elements of ``entries`` in order."""
        joined = KVCacheEntry.concatenate(entries)
        return PresentKVCacheEntry(**vars(joined), presence=_joined_presence(entries))


@dataclass
class PresentQuantizedKVCacheEntry(QuantizedKVCacheEntry):
    """A quantised entry with the presence (B, N) of its rows in full precision."""

    presence: Tensor | None = None

    def to(self, device: torch.device | str) -> PresentQuantizedKVCacheEntry:
        """This entry on another device."""
        if not self.is_valid():
            return PresentQuantizedKVCacheEntry()
        return PresentQuantizedKVCacheEntry(
            **vars(super().to(device)), presence=_moved(self, device)
        )

    def dequantize(self, dtype: torch.dtype) -> PresentKVCacheEntry:
        """Keys and values in ``dtype``; presence as it is."""
        return PresentKVCacheEntry(**vars(super().dequantize(dtype)), presence=self.presence)

    @staticmethod
    def concatenate(entries: Sequence[QuantizedKVCacheEntry]) -> PresentQuantizedKVCacheEntry:
        """One entry with the batch elements of ``entries`` in order."""
        joined = QuantizedKVCacheEntry.concatenate(entries)
        return PresentQuantizedKVCacheEntry(**vars(joined), presence=_joined_presence(entries))


class PresentCache:
    """Mixin before a stock cache class: every key/value entry carries presence."""

    @classmethod
    def of(cls, cache: KVCache, **more: Any) -> Self:
        """The same content as ``cache``, whose entries carry presence already, and ``more``."""
        return cls(
            **{**{field.name: getattr(cache, field.name) for field in fields(cache)}, **more}
        )

    def to(self, device: torch.device | str) -> Self:
        """This cache on another device."""
        return self.of(super().to(device))  # type: ignore[misc]

    def quantize(self, dtype: torch.dtype = QUANTIZED_KV_DTYPE) -> Self:
        """This cache with quantised keys and values."""
        return self.of(super().quantize(dtype))  # type: ignore[misc]

    @classmethod
    def concatenate(cls, caches: Sequence[KVCache]) -> Self:
        """One cache with the batch elements of ``caches`` in order; consumes them."""
        return cls.of(super().concatenate(caches))  # type: ignore[misc]

    @staticmethod
    def _consume_and_concatenate_layers(
        caches: Sequence[KVCache],
    ) -> dict[int, KVCacheEntry | QuantizedKVCacheEntry]:
        # Upstream joins layers through its own entry classes by name, which drop presence.
        joined = {}
        for layer in list(caches[0].kv):
            entries = [cache.kv.pop(layer) for cache in caches]
            joined[layer] = type(entries[0]).concatenate(entries)
        return joined


@dataclass
class ClosedCache(PresentCache):
    """Mixin before a cache class with presence: what was declared NULL when it was built."""

    train_rows: Tensor | None = None
    """(B, N); None if nothing was declared."""
    columns: Tensor | None = None
    """(B, C); None if nothing was declared."""

    def masks(self, train: int, columns: int) -> tuple[Tensor, Tensor]:
        """Presence of train rows (B, N) and columns (B, C), all True where nothing was declared."""
        if self.train_rows is not None and self.columns is not None:
            return self.train_rows, self.columns
        stock: Any = self
        batch, device = stock.train_shape[0], next(iter(stock.kv.values())).key.device
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
        quantised: Any = super().quantize(dtype)
        return self.of(quantised, train_rows=self.train_rows, columns=self.columns)

    @classmethod
    def concatenate(cls, caches: Sequence[KVCache]) -> Self:
        """One cache with the batch elements of ``caches`` in order; consumes them."""
        closed: list[Any] = [cls.of(cache) for cache in caches]
        joined: Any = super().concatenate(caches)
        if all(cache.columns is None for cache in closed):
            return cls.of(joined)
        parts = []
        for cache in closed:
            assert cache.scaler_cache is not None
            parts.append(cache.masks(cache.train_shape[1], cache.scaler_cache["mean"].shape[-1]))
        train_rows, columns = (torch.cat(masks) for masks in zip(*parts, strict=False))
        return cls.of(joined, train_rows=train_rows, columns=columns)


def present_entry(
    cached: KVCacheEntry | QuantizedKVCacheEntry, dtype: torch.dtype, block: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values (B, N, H, D) in ``dtype``, and the presence (B, N) of their rows.

    Raises:
        UnsupportedModeError: the cache was built by a model without presence.
    """
    if isinstance(cached, PresentQuantizedKVCacheEntry):
        cached = cached.dequantize(dtype)
    if not isinstance(cached, PresentKVCacheEntry) or cached.presence is None:
        msg = (
            f"{block}: the key/value cache holds no presence, so it was built by a stock model; "
            "fit the patched model again with fit_mode='fit_with_cache'"
        )
        raise UnsupportedModeError(msg)
    return cached.key.to(dtype), cached.value.to(dtype), cached.presence


def _moved(
    entry: PresentKVCacheEntry | PresentQuantizedKVCacheEntry, device: torch.device | str
) -> Tensor:
    assert entry.presence is not None
    return entry.presence.to(device)


def _joined_presence(entries: Sequence[KVCacheEntry | QuantizedKVCacheEntry]) -> Tensor:
    return torch.cat([entry.presence for entry in entries])
