"""Parts of a raw table: the rows and columns that are there, and positions among them.

Shapes: N rows, C columns.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


def part(table: Any, rows: ArrayLike, columns: ArrayLike | None = None) -> Any:
    """The present rows and columns of a table, of its own type where it is a data frame."""
    kept = np.flatnonzero(np.asarray(rows))
    if hasattr(table, "iloc"):
        picked = table.iloc[kept]
        return picked if columns is None else picked.iloc[:, np.flatnonzero(np.asarray(columns))]
    picked = np.asarray(table)[kept]
    return picked if columns is None else picked[:, np.asarray(columns)]


def among(columns: ArrayLike, indices: Sequence[int] | None) -> list[int] | None:
    """Positions among the present columns; what is no position in the table stays as it is."""
    if indices is None:
        return None
    present_C = np.asarray(columns)
    rank_C = (np.cumsum(present_C) - 1).tolist()
    kept = []
    for index in indices:
        if not (isinstance(index, Integral) and 0 <= index < len(rank_C)):
            kept.append(index)
        elif present_C[int(index)]:
            kept.append(rank_C[index])
    return kept
