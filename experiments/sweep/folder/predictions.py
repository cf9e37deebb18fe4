"""``predictions.parquet``: what every model predicts for every test row, one line per row.

It is made from the records, so that a sweep that is stopped goes on with it as well.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.errors import MissingExtraError
from experiments.sweep.schema import variant_rank
from retrofit.files.atomic import fill_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import numpy as np

    from experiments.sweep.folder.store import Record

FILE = "predictions.parquet"
DETAIL = "predictions"
ROWS = ("dataset", "seed", "row", "y")
"""Columns beside those of the variants; ``row`` counts the table's rows from 0, those without a
target left out."""


def detail(rows_N: np.ndarray, y_N: np.ndarray, mean_N: np.ndarray) -> dict[str, Any]:
    """What a record keeps of a prediction."""
    return {DETAIL: {"row": rows_N.tolist(), "y": y_N.tolist(), "mean": mean_N.tolist()}}


def require_parquet() -> None:
    """Make sure that the file can be written, before anything is computed.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError(
            "--save-predictions writes parquet, and no usable pyarrow is installed; run: "
            "pip install -U pyarrow"
        ) from None


def write_predictions(folder: Path, records: Iterable[Record]) -> None:
    """Write the file from all records that keep a prediction; without any, there is none.

    Raises:
        OSError: the disk is full or the folder is not writable.
    """
    columns: dict[tuple[str, int], dict[str, Any]] = {}
    for record in records:
        kept = record.details.get(DETAIL)
        if kept is not None:
            case = columns.setdefault((record.row.dataset, record.row.seed), {})
            case |= {"row": kept["row"], "y": kept["y"], record.row.variant: kept["mean"]}
    frames = [
        pd.DataFrame({"dataset": dataset, "seed": seed, **case})
        for (dataset, seed), case in columns.items()
    ]
    if not frames:
        return
    table = pd.concat(frames)
    variants = sorted(set(table.columns) - set(ROWS), key=variant_rank)
    table = table[[*ROWS, *variants]]
    fill_atomic(folder / FILE, lambda draft: table.to_parquet(draft, index=False))
