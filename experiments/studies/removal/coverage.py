"""Whether intervals hold the target as often as they say.

Shapes: M test rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.removal.intervals import intervals
from experiments.report.columns import Column
from experiments.studies.removal.samples import drawn, packaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from experiments.studies.removal.samples import Sample
    from retrofit import Patched
    from retrofit.closed.removable import Scope

NOMINAL, TABLES, TRAIN, TEST = 0.9, 200, 24, 20
PACKAGED_ROWS = 60
"""Train rows, and as many test rows, of each packaged set."""


@dataclass(frozen=True)
class CoverageRow:
    """How often intervals of one scope held the target, over one family of tables."""

    tables: str
    scope: str
    count: int
    train_rows: int
    first: float
    """Share of tables whose first test row is covered: independent trials."""
    low: float
    """The binomial 99 % band of that share, were the coverage nominal."""
    high: float
    coverage: float
    """Over all test rows."""
    width: float
    """Median width in standard deviations of the train target."""


def measure(closed: Patched, progress: Callable[[str], None]) -> Iterator[CoverageRow]:
    """A row per family of tables and scope."""
    from retrofit.closed.removable import SCOPES

    for scope in SCOPES:
        progress(f"{TABLES} drawn tables, scope {scope}")
        tables = (drawn(TRAIN, TEST, seed) for seed in range(TABLES))
        yield _row("drawn", closed, tables, scope)
        progress(f"packaged sets, scope {scope}")
        yield _row("packaged", closed, packaged(PACKAGED_ROWS, PACKAGED_ROWS, seed=0), scope)


def _row(name: str, closed: Patched, samples: Iterable[Sample], scope: Scope) -> CoverageRow:
    from scipy.stats import binom

    import retrofit

    covered, widths = [], []
    for sample in samples:
        table = retrofit.Removable(
            closed, sample.X, sample.y, scope, n_estimators=1, **sample.settings
        )
        found = intervals(table, sample.X_test, coverage=NOMINAL)
        covered.append((found.lower <= sample.y_test) & (sample.y_test <= found.upper))
        widths.append((found.upper - found.lower) / sample.y.std())
    low, high = binom.ppf([0.005, 0.995], len(covered), NOMINAL) / len(covered)
    return CoverageRow(
        tables=name,
        scope=scope,
        count=len(covered),
        train_rows=len(sample.y),
        first=float(np.mean([own[0] for own in covered])),
        low=float(low),
        high=float(high),
        coverage=float(np.mean(covered)),
        width=float(np.median(widths)),
    )


_SHARE = "{:.3f}".format
COLUMNS: tuple[Column[CoverageRow], ...] = (
    Column("tables", "tables"),
    Column("scope", "scope"),
    Column("count", "number"),
    Column("train_rows", "train rows"),
    Column("first", "first test row covered", _SHARE),
    Column("band", "binomial 99 % band", str, lambda row: f"{row.low:.3f} to {row.high:.3f}"),
    Column("coverage", "all test rows", _SHARE),
    Column("width", "median width / sd", "{:.2f}".format),
)
SAYS = (
    f"Jackknife+ intervals (MAPIE's) that should hold the target with probability {NOMINAL:g}, "
    "one ensemble member. The band is that of the share of tables whose first test row is covered, "
    "were the probability just that; the other test rows of a table are not independent of it. "
    "Only scope `pipeline` has the theorem."
)
