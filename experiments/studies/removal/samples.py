"""Small parts of the packaged sets, and tables that are drawn, for the studies of removal.

Shapes: N train rows, M test rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.data.packaged import PACKAGED
from experiments.data.registry import load_table

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = 4
"""Of the tables that are drawn."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A table, rows to predict, and what an estimator must be told of its columns."""

    name: str
    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    settings: dict[str, Any]


def packaged(train: int, test: int, seed: int) -> Iterator[Sample]:
    """So many rows of every packaged set, drawn by the seed."""
    for name in PACKAGED:
        table = load_table(f"packaged:{name}")
        order = np.random.default_rng(seed).permutation(len(table.y))[: train + test]
        X, y = table.X.iloc[order].reset_index(drop=True), table.y[order]
        places = [list(table.X.columns).index(column) for column in table.categorical]
        yield Sample(
            name,
            X[:train],
            y[:train],
            X[train:].reset_index(drop=True),
            y[train:],
            {"categorical_features_indices": places or None},
        )


def drawn(train: int, test: int, seed: int) -> Sample:
    """Independent rows of one law: smooth, with an interaction and noise that grows."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(train + test, COLUMNS))
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    y += 0.2 * (1 + np.abs(x[:, 3])) * draw.normal(size=len(x))
    X = pd.DataFrame(x, columns=[f"x{place}" for place in range(COLUMNS)])
    return Sample(
        f"drawn-{seed}", X[:train], y[:train], X[train:].reset_index(drop=True), y[train:], {}
    )


def mixed(train: int, test: int, seed: int) -> Sample:
    """A table with numbers, gaps, categories, text, and by the seed a constant or equal rows."""
    draw = np.random.default_rng(seed)
    rows = train + test
    X = pd.DataFrame(draw.normal(size=(rows, 3)), columns=["a", "b", "c"])
    X.loc[draw.random(rows) < 0.2, "b"] = np.nan
    X["kind"] = draw.choice(["red", "green", "blue"], size=rows)
    X["count"] = draw.integers(0, 4, size=rows).astype(float)
    if seed % 4 == 1:
        X["c"] = 1.5
    if seed % 4 == 2:
        X.loc[1] = X.loc[0]
    if seed % 4 == 3:
        X["kind"] = [f"word {number}" for number in draw.integers(0, rows // 2, size=rows)]
    y = 3 * X["a"] - np.square(X["count"]) + (X["kind"] == "red") + 0.1 * draw.normal(size=rows)
    target = y.to_numpy(dtype=np.float64)
    return Sample(
        f"mixed-{seed}",
        X[:train],
        target[:train],
        X[train:].reset_index(drop=True),
        target[train:],
        {"categorical_features_indices": [3]},
    )
