"""Every registered score but RMSE of each variant beside stock's, over complete pairs.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from experiments.errors import ResultsError
from experiments.io.csv_text import csv_text
from experiments.report.columns import Column, percent
from experiments.sweep import metrics, schema
from experiments.sweep.metrics import Beside
from experiments.sweep.variant_name import STOCK
from retrofit.files.atomic import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import pandas as pd

    from experiments.sweep.schema import CaseRow


@dataclass(frozen=True)
class ScoreChange:
    """Means over the cases in which stock and variant are both ``ok``."""

    variant: str
    cases: int
    figures: dict[str, float]
    """By their columns in ``summary.csv``; NaN where a score is not defined in any of the cases."""


class _Comparison(NamedTuple):
    """One figure of a comparison with stock, and how it follows from variant and stock.

    Without a header it stands in ``summary.csv`` alone.
    """

    name: str
    header: str
    form: Callable[[float], str]
    score: str
    of: Callable[[pd.Series[float], pd.Series[float]], pd.Series[float]]


def _comparisons(own: Iterable[str]) -> Iterator[_Comparison]:
    for score in metrics.scores(own):
        name, stem, label = score.name, score.stem or score.name, score.label
        change, form = f"{label} change", score.form or str
        if score.beside is Beside.PERCENT:
            yield _Comparison(
                f"{stem}_pct", change, percent, name, lambda own, stock: 100.0 * (own / stock - 1.0)
            )
            continue
        if score.beside is not None:
            header = f"{label} stock" if score.form else ""
            yield _Comparison(f"{stem}_stock", header, form, name, lambda _, stock: stock)
        if score.beside is Beside.DIFFERENCE:
            header = f"{change}, {score.unit}" if score.unit else change
            signed = "{:+.2g}".format
            yield _Comparison(
                f"{stem}_change", header, signed, name, lambda own, stock: own - stock
            )
        elif score.beside is Beside.BOTH:
            yield _Comparison(f"{stem}_variant", f"{label} variant", form, name, lambda own, _: own)


def score_columns(own: Iterable[str]) -> list[Column[ScoreChange]]:
    """The columns that are shown of the scores beside stock's; ``own`` are scorers by name."""

    def value(name: str) -> Callable[[ScoreChange], float]:
        return lambda item: item.figures[name]

    return [
        Column(item.name, item.header, item.form, value(item.name))
        for item in _comparisons(own)
        if item.header
    ]


def write_side_tables(folder: Path, rows: Iterable[CaseRow]) -> None:
    """Write the tables of scores that ``cases.csv`` has no column for, such as ``coverage.csv``."""
    kept = list(rows)
    if own := list(dict.fromkeys(name for row in kept for name in own_names(row.scores))):
        scored = [
            (*(getattr(row, key) for key in schema.KEYS), *(row.scores[name] for name in own))
            for row in kept
            if row.scores.keys() >= set(own)
        ]
        write_atomic(folder / metrics.OWN, csv_text(((*schema.KEYS, *own), *scored)))
    for table in schema.tables():
        if table != metrics.CASES:
            names = schema.columns(table)[len(schema.KEYS) :]
            known = [
                r for r in kept if any(math.isfinite(r.scores.get(n, math.nan)) for n in names)
            ]
            lines = [schema.columns(table), *(schema.to_cells(row, table) for row in known)]
            write_atomic(folder / table, csv_text(lines))


def own_names(names: Iterable[str]) -> tuple[str, ...]:
    """Those that no registered score has: scikit-learn's scorers."""
    known = {score.name for score in metrics.SCORES}
    return tuple(name for name in names if name not in known)


def with_side_tables(folder: Path, cases: pd.DataFrame) -> pd.DataFrame:
    """The cases with the scores of the tables beside them; NaN where there is no such table.

    Raises:
        ResultsError: one of the tables has other columns, or a score that is not a number.
    """
    for table in schema.tables():
        if table != metrics.CASES:
            names = schema.columns(table)
            cases = cases.merge(_read(folder / table, names), on=list(schema.KEYS), how="left")
    path = folder / metrics.OWN
    if path.is_file():
        header = tuple(path.read_text(encoding="utf-8").partition("\n")[0].split(","))
        own = own_names(header[len(schema.KEYS) :])
        cases = cases.merge(_read(path, (*schema.KEYS, *own)), on=list(schema.KEYS), how="left")
    return cases


def _read(path: Path, names: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame(columns=list(names), dtype=str)
    if path.is_file():
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    if tuple(frame.columns) != names:
        raise ResultsError(
            f"{path}: not a table of {path.stem}; run 'oretro eval' again to remake it"
        )
    try:
        frame["seed"] = frame["seed"].astype("int64")
        for name in names[len(schema.KEYS) :]:
            frame[name] = [float(cell or "nan") for cell in frame[name]]
    except ValueError as error:
        raise ResultsError(
            f"{path}: a number cannot be read ({error}); run 'oretro eval' again to remake it"
        ) from None
    return frame


def score_changes(
    cases: pd.DataFrame, variants: Iterable[str], own: Iterable[str] = ()
) -> tuple[ScoreChange, ...]:
    """Compare the scores of ``variants`` with stock's, case by case."""
    keys, asked = ["suite", "dataset", "seed"], tuple(own)
    columns = [*keys, *(score.name for score in metrics.scores(asked))]
    scored = cases[cases["status"] == "ok"]
    stock = scored.loc[scored["variant"] == STOCK, columns]
    changes = []
    for variant in variants:
        theirs = scored.loc[scored["variant"] == variant, columns]
        pairs = theirs.merge(stock, on=keys, suffixes=("", "_stock"))
        figures = {
            item.name: _mean(item.of(pairs[item.score], pairs[f"{item.score}_stock"]))
            for item in _comparisons(asked)
        }
        changes.append(ScoreChange(variant, len(pairs), figures))
    return tuple(changes)


def _mean(values: pd.Series[float]) -> float:
    known = values.to_numpy(dtype=np.float64)
    known = known[np.isfinite(known)]
    return float(known.mean()) if known.size else math.nan
