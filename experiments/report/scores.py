"""MAE, R2, NLL and interval coverage of each variant beside stock's, over complete pairs.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.errors import ResultsError
from experiments.io.atomic import write_atomic
from experiments.io.csv_text import csv_text
from experiments.sweep.variant_name import STOCK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pandas as pd

    from experiments.sweep.folder.store import Record

FILE = "coverage.csv"
NOMINAL = 0.8
_KEYS = ("suite", "dataset", "seed", "variant")
_COVERAGE = "coverage80"


@dataclass(frozen=True)
class ScoreChange:
    """Means over the cases in which stock and variant are both ``ok``; NaN where a score is not
    defined in any of them."""

    variant: str
    cases: int
    mae_pct: float
    """Mean change of the mean absolute error, in percent of stock's."""
    r2_stock: float
    r2_change: float
    nll_stock: float
    nll_change: float
    """In nats; independent of the target's unit, unlike the NLL itself."""
    coverage_stock: float
    """Share of test targets in stock's central 80 % interval; 0.8 is nominal."""
    coverage_variant: float


def write_coverage(folder: Path, records: Iterable[Record]) -> None:
    """Write ``coverage.csv``: the one score that ``cases.csv`` has no column for."""
    rows = [[*_KEYS, _COVERAGE]]
    for record in records:
        value = record.details.get(_COVERAGE)
        if value is not None and math.isfinite(value):
            rows.append([*(str(getattr(record.row, name)) for name in _KEYS), repr(float(value))])
    write_atomic(folder / FILE, csv_text(rows))


def read_coverage(folder: Path) -> pd.DataFrame:
    """Read ``coverage.csv``; without rows where there is none.

    Raises:
        ResultsError: it has other columns, or a share that is not a number.
    """
    import pandas as pd

    path = folder / FILE
    frame: pd.DataFrame = pd.DataFrame(columns=[*_KEYS, _COVERAGE], dtype=str)
    if path.is_file():
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    if tuple(frame.columns) != (*_KEYS, _COVERAGE):
        raise ResultsError(
            f"{path}: not a table of coverages; run 'oretro eval' again to remake it"
        )
    try:
        typed: pd.DataFrame = frame.astype({"seed": "int64", _COVERAGE: "float64"})
    except ValueError as error:
        raise ResultsError(
            f"{path}: a number cannot be read ({error}); run 'oretro eval' again to remake it"
        ) from None
    return typed


def score_changes(
    cases: pd.DataFrame, coverage: pd.DataFrame, variants: Iterable[str]
) -> tuple[ScoreChange, ...]:
    """Compare the scores of ``variants`` with stock's, case by case."""
    scored = cases[cases["status"] == "ok"].merge(coverage, on=list(_KEYS), how="left")
    keys = ["suite", "dataset", "seed"]
    columns = [*keys, "mae", "r2", "nll", _COVERAGE]
    stock = scored.loc[scored["variant"] == STOCK, columns]
    changes = []
    for name in variants:
        own = scored.loc[scored["variant"] == name, columns]
        pairs = own.merge(stock, on=keys, suffixes=("", "_stock"))
        changes.append(
            ScoreChange(
                variant=name,
                cases=len(pairs),
                mae_pct=_mean(100.0 * (pairs["mae"] / pairs["mae_stock"] - 1.0)),
                r2_stock=_mean(pairs["r2_stock"]),
                r2_change=_mean(pairs["r2"] - pairs["r2_stock"]),
                nll_stock=_mean(pairs["nll_stock"]),
                nll_change=_mean(pairs["nll"] - pairs["nll_stock"]),
                coverage_stock=_mean(pairs[f"{_COVERAGE}_stock"]),
                coverage_variant=_mean(pairs[_COVERAGE]),
            )
        )
    return tuple(changes)


def _mean(values: pd.Series[float]) -> float:
    known = values.to_numpy(dtype=np.float64)
    known = known[np.isfinite(known)]
    return float(known.mean()) if known.size else math.nan
