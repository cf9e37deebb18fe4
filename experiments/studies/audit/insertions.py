"""A small table as the model sees it, and the same table with NULL rows and columns in it.

Shapes: R rows, N train rows, M test rows, C columns; the batch axis is of size 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from retrofit.hosts.stages import Places

if TYPE_CHECKING:
    from torch import Tensor

Fill = Literal["zero", "missing", "garbage"]


@dataclass(frozen=True, eq=False)
class ModelTable:
    """Features (R, C) and train targets (N,) in float64."""

    x_RC: Tensor
    y_N: Tensor

    @property
    def train(self) -> int:
        """Number of train rows."""
        return len(self.y_N)

    @property
    def test(self) -> int:
        """Number of test rows."""
        return len(self.x_RC) - self.train

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.x_RC.shape[1]


@dataclass(frozen=True, eq=False, kw_only=True)
class Placement(Places):
    """Where NULL rows and columns go: True for the table's own, False for the inserted ones."""

    name: str


def synthetic_table(train: int = 24, test: int = 8, columns: int = 6, seed: int = 0) -> ModelTable:
    """A seeded table with a missing feature and a missing target, which call for imputation."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(train + test, columns))
    y = x[:train, 0] - 0.5 * x[:train, 1] ** 2 + 0.1 * rng.normal(size=train)
    x[1, 2] = np.nan
    y[2] = np.nan
    return ModelTable(torch.from_numpy(x), torch.from_numpy(y))


def insertions(table: ModelTable, seed: int = 0) -> list[Placement]:
    """Every kind of insertion: each axis at the end, in the middle and in number; all at once."""
    rng = np.random.default_rng(seed)
    sizes = {"train": table.train, "test": table.test, "columns": table.columns}
    whole = {axis: torch.ones(size, dtype=torch.bool) for axis, size in sizes.items()}
    kinds = []
    for axis, size in sizes.items():
        half = size // 2
        places = {
            "end": [True] * size + [False] * 2,
            "middle": [True] * half + [False] * 2 + [True] * (size - half),
            "many": rng.permutation([True] * size + [False] * 3 * size).tolist(),
        }
        for place, mask in places.items():
            own = {**whole, axis: torch.tensor(mask)}
            kinds.append(Placement(name=f"{axis}, {place}", **own))
    mixed = {
        axis: torch.from_numpy(rng.permutation([True] * size + [False] * size))
        for axis, size in sizes.items()
    }
    return [*kinds, Placement(name="all, mixed", **mixed)]


def filled(table: ModelTable, where: Placement, fill: Fill, seed: int = 0) -> ModelTable:
    """The table with the insertion's rows and columns in it, holding zeros, NaN or garbage."""
    rows, columns = len(where.rows), len(where.columns)
    x_RC = torch.zeros(rows, columns, dtype=torch.float64)
    y_N = torch.zeros(len(where.train), dtype=torch.float64)
    if fill == "missing":
        x_RC.fill_(torch.nan)
        y_N.fill_(torch.nan)
    elif fill == "garbage":
        rng = np.random.default_rng(seed)
        choices = [np.nan, np.inf, -np.inf, 1e30, -7.7]
        x_RC = torch.from_numpy(rng.choice(choices, size=(rows, columns)))
        y_N = torch.from_numpy(rng.choice(choices, size=len(where.train)))
    x_RC[where.rows[:, None] & where.columns] = table.x_RC.flatten()
    y_N[where.train] = table.y_N
    return ModelTable(x_RC, y_N)
