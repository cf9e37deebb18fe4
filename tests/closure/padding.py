"""Tables of the bare model with NULL rows and columns put in, and ways to call the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from retrofit import Presence, declaring
from retrofit.hosts.clone import alias
from retrofit.hosts.registry import generation_of_model

GARBAGE = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e30, -7.7], dtype=torch.float64)


@dataclass(frozen=True)
class Table:
    """Features (R, B, C) and targets (N, B)."""

    x: Tensor
    y: Tensor

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Train rows, test rows, columns."""
        return len(self.y), len(self.x) - len(self.y), self.x.shape[2]

    def to(self, dtype: torch.dtype) -> Table:
        return Table(self.x.to(dtype), self.y.to(dtype))


@dataclass(frozen=True)
class Padded:
    """A table with NULL rows and columns in it, and which are its own, per batch element."""

    table: Table
    train: Tensor
    test: Tensor
    columns: Tensor

    @property
    def presence(self) -> Presence:
        return Presence(self.train, self.test, self.columns)

    def own(self, logits_MBL: Tensor) -> Tensor:
        """The logits (M, B, n_out) of the table's own test rows."""
        kept = [logits_MBL[mask, element] for element, mask in enumerate(self.test)]
        return torch.stack(kept, dim=1)

    def null(self, logits_MBL: Tensor) -> Tensor:
        """The logits of NULL test rows."""
        return logits_MBL.transpose(0, 1)[~self.test]


def draw_table(train: int, test: int, columns: int, batch: int, seed: int = 0) -> Table:
    """A seeded table in float64 with a few missing and infinite features."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(train + test, batch, columns, generator=generator, dtype=torch.float64)
    y = torch.randn(train, batch, generator=generator, dtype=torch.float64)
    x[torch.rand(x.shape, generator=generator) < 0.03] = torch.nan
    x[0, 0, 0] = torch.inf
    return Table(x, y)


def scattered(size: int, extra: int, batch: int, generator: torch.Generator) -> Tensor:
    """(B, size + extra) with ``size`` True at places of their own in each line."""
    order = torch.rand(batch, size + extra, generator=generator).argsort(dim=1)
    return order < size


def placed(size: int, extra: int, batch: int, place: str, generator: torch.Generator) -> Tensor:
    """As ``scattered``, or with all the extra ones at the end or in the middle."""
    if place == "interleaved":
        return scattered(size, extra, batch, generator)
    at = size if place == "end" else size // 2
    line = [True] * at + [False] * extra + [True] * (size - at)
    return torch.tensor(line).expand(batch, -1)


def pad(
    table: Table,
    train: Tensor,
    test: Tensor,
    columns: Tensor,
    seed: int = 0,
    fill: float | None = None,
) -> Padded:
    """Put NULL rows and columns where the masks are False, holding garbage or ``fill``."""
    batch = table.x.shape[1]
    rows = torch.cat((train, test), dim=1)
    generator = torch.Generator().manual_seed(seed)

    def filler(*shape: int) -> Tensor:
        if fill is not None:
            return torch.full(shape, fill, dtype=torch.float64)
        return GARBAGE[torch.randint(len(GARBAGE), shape, generator=generator)]

    x = filler(rows.shape[1], batch, columns.shape[1])
    y = filler(train.shape[1], batch)
    for element in range(batch):
        own = rows[element][:, None] & columns[element]
        x[:, element][own] = table.x[:, element].flatten()
        y[train[element], element] = table.y[:, element]
    dtype = table.x.dtype
    return Padded(Table(x.to(dtype), y.to(dtype)), train, test, columns)


def ask(model: nn.Module, *table: object, **options: object) -> object:
    """What a bare model says of features (R, B, C) and targets (N, B)."""
    return generation_of_model(model).run(model, *table, **options)


Call = Callable[[nn.Module, Table, Presence | None], Tensor]


def plain(model: nn.Module, table: Table, presence: Presence | None) -> Tensor:
    with torch.inference_mode(), declaring(presence):
        return ask(model, table.x, table.y)


def row_chunks(model: nn.Module, table: Table, presence: Presence | None) -> Tensor:
    chunked = alias(model)
    chunked.inference_chunk_cells = 64
    return plain(chunked, table, presence)


def column_chunks(model: nn.Module, table: Table, presence: Presence | None) -> Tensor:
    chunked = alias(model)
    chunked.inference_chunk_cells, chunked.inference_col_chunk_size = 64, 3
    return plain(chunked, table, presence)


def memory_saving(model: nn.Module, table: Table, presence: Presence | None) -> Tensor:
    options = dataclasses.replace(
        model.get_default_performance_options(), save_peak_memory_factor=8
    )
    with torch.inference_mode(), declaring(presence):
        return ask(model, table.x, table.y, performance_options=options)


def as_dictionaries(model: nn.Module, table: Table, presence: Presence | None) -> Tensor:
    with torch.inference_mode(), declaring(presence):
        output = ask(
            model, {"main": table.x}, {"main": table.y[..., None]}, only_return_standard_out=False
        )
    return output["standard"]


def from_cache(model: nn.Module, table: Table, presence: Presence | None) -> Tensor:
    """The cache is built from the train rows; it alone knows the columns at the second call."""
    train = len(table.y)
    first = presence and Presence(presence.train_rows, None, presence.columns)
    second = presence and Presence(test_rows=presence.test_rows)
    with torch.inference_mode():
        with declaring(first):
            _, cache = ask(model, table.x[:train], table.y, return_kv_cache=True)
        with declaring(second):
            return ask(
                model, table.x[train:], table.y, kv_cache=cache.to("cpu"), x_is_test_only=True
            )


def from_joined_caches(model: nn.Module, table: Table, presence: Presence | None) -> Tensor:
    """One cache per batch element, joined, as tabpfn's engine does it."""
    train, batch = len(table.y), table.x.shape[1]
    caches = []
    with torch.inference_mode():
        for element in range(batch):
            first = presence and Presence(
                presence.train_rows[element], None, presence.columns[element]
            )
            with declaring(first):
                x, y = table.x[:train, element, None], table.y[:, element, None]
                caches.append(ask(model, x, y, return_kv_cache=True)[1])
        cache = type(caches[0]).concatenate(caches)
        second = presence and Presence(test_rows=presence.test_rows)
        with declaring(second):
            return ask(model, table.x, table.y, kv_cache=cache)


CALLS: dict[str, Call] = {
    "plain": plain,
    "row chunks": row_chunks,
    "column chunks": column_chunks,
    "memory saving": memory_saving,
    "dictionaries": as_dictionaries,
    "cache": from_cache,
    "joined caches": from_joined_caches,
}
