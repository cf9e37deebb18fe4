"""Tables for the tests of removal."""

from __future__ import annotations

import numpy as np

SETTINGS = {"random_state": 0, "device": "cpu"}


def draw(seed: int, rows: int = 24, columns: int = 4, test: int = 5):
    """A table with a gap, a category-like column and, for some seeds, equal rows or columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + test, columns))
    X[:, -1] = rng.integers(0, 3, size=rows + test)
    X[rng.integers(rows), 0] = np.nan
    if seed % 3 == 1:
        X[1] = X[0]
    if seed % 4 == 2:
        X[:, 1] = 1.5
    y = 3 * np.nan_to_num(X[:, 0]) - np.nan_to_num(X[:, 2 % columns]) ** 2
    y += 0.1 * rng.normal(size=rows + test)
    return X[:rows], y[:rows], X[rows:]
