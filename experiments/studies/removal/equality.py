"""Whether scope ``pipeline`` answers as refits do, over many tables of every kind of column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.report.columns import Column
from experiments.studies.removal.samples import mixed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from experiments.studies.removal.samples import Sample
    from retrofit import Patched

TABLES, TRAIN, TEST, COALITIONS = 200, 24, 5, 3
_KINDS = ("gaps and categories", "and a constant", "and equal rows", "and text")


@dataclass(frozen=True)
class EqualityRow:
    """The worst of the tables of one kind, in standard deviations of the target."""

    kind: str
    tables: int
    members: str
    deviation: float
    poisoned: int
    """Answers that removed cells, spoilt, changed in any bit."""
    effect: float
    """Smallest effect that a removal had on some prediction: what a deviation is to be held to."""


def measure(closed: Patched, progress: Callable[[str], None]) -> Iterator[EqualityRow]:
    """A row per kind of table."""
    for number, kind in enumerate(_KINDS):
        progress(f"tables with {kind}")
        found = [
            _one(closed, mixed(TRAIN, TEST, seed), seed, members=1 + seed // 4 % 2)
            for seed in range(number, TABLES, len(_KINDS))
        ]
        deviations, poisoned, effects = zip(*found, strict=True)
        yield EqualityRow(kind, len(found), "1 and 2", max(deviations), sum(poisoned), min(effects))


def _one(closed: Patched, sample: Sample, seed: int, members: int) -> tuple[float, int, float]:
    import retrofit

    X, y, unit = sample.X, sample.y, sample.y.std()
    draw = np.random.default_rng(seed)
    rows = draw.random((COALITIONS, len(y))) < 0.7
    columns = draw.random((COALITIONS, X.shape[1])) < 0.7
    columns[:, 0] = True
    table = retrofit.Removable(closed, X, y, "pipeline", n_estimators=members, **sample.settings)
    answers = table.predict(sample.X_test, rows=rows, columns=columns)
    refits = []
    for own_rows, own_columns in zip(rows, columns, strict=True):
        kept = np.flatnonzero(own_columns)
        places = [int(np.flatnonzero(kept == place)[0]) for place in (3,) if place in kept]
        regressor = closed.regressor(
            n_estimators=members, random_state=0, categorical_features_indices=places or None
        )
        regressor.fit(X.loc[own_rows].iloc[:, kept].reset_index(drop=True), y[own_rows])
        refits.append(regressor.predict(sample.X_test.iloc[:, kept]))
    whole = table.predict(sample.X_test)

    def alone(X: pd.DataFrame, y: np.ndarray, X_test: pd.DataFrame) -> np.ndarray:
        """The first coalition in a pass of its own, by a table that has answered nothing yet."""
        fresh = retrofit.Removable(
            closed, X, y, "pipeline", n_estimators=members, **sample.settings
        )
        found: np.ndarray = fresh.predict(X_test, rows=rows[:1], columns=columns[:1])
        return found

    every = np.ones(len(sample.X_test), dtype=bool)
    spoilt = alone(
        _poisoned(X, rows[0], columns[0]),
        np.where(rows[0], y, 1e30),
        _poisoned(sample.X_test, every, columns[0]),
    )
    return (
        float(np.abs(answers - refits).max() / unit),
        int((spoilt != alone(X, y, sample.X_test)).any()),
        float(np.abs(answers - whole).max() / unit),
    )


def _poisoned(X: pd.DataFrame, rows: np.ndarray, columns: np.ndarray) -> pd.DataFrame:
    """The table with garbage in every removed cell."""
    spoilt: pd.DataFrame = X.copy()
    for name, kept in zip(X.columns, columns, strict=True):
        garbage = 1e30 if pd.api.types.is_numeric_dtype(X[name]) else "garbage"
        spoilt.loc[~rows if kept else slice(None), name] = garbage
    return spoilt


COLUMNS: tuple[Column[EqualityRow], ...] = (
    Column("kind", "tables with"),
    Column("tables", "number"),
    Column("members", "ensemble members"),
    Column("deviation", "largest deviation from refits", "{:.1e}".format),
    Column("poisoned", "changed by spoilt cells"),
    Column("effect", "smallest effect of a removal", "{:.1e}".format),
)
SAYS = (
    f"{TABLES} drawn tables of {TRAIN} rows and five columns, {COALITIONS} coalitions of rows and "
    "columns of each: scope `pipeline` beside estimators fitted on what remains, and beside itself "
    "with garbage in all that was removed. In standard deviations of the target, float32."
)
