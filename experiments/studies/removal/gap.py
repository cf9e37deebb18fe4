"""How far the two meanings of removal are apart: what they say of a row, or a column, taken away.

Shapes: K removals, M test rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.report.columns import Column
from experiments.studies.removal.samples import packaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from experiments.studies.removal.samples import Sample
    from retrofit import Patched

TRAIN, TEST, MEMBERS, MOST = 100, 40, 2, 30
"""Rows, test rows, ensemble members, and removals per table and kind."""


@dataclass(frozen=True)
class GapRow:
    """Effects of removals on predictions: means of sizes, in standard deviations of the target."""

    data: str
    removed: str
    removals: int
    pipeline: float
    model: float
    gap: float
    gap_without_shift: float
    """After taking away what a removal does to all test rows alike."""
    correlation: float


def measure(closed: Patched, progress: Callable[[str], None]) -> Iterator[GapRow]:
    """A row per packaged set and kind of removal."""
    for sample in packaged(TRAIN, TEST, seed=0):
        for kind, size in (("rows", TRAIN), ("columns", sample.X.shape[1])):
            progress(f"{sample.name}, {kind}")
            masks_Kn = ~np.eye(size, dtype=bool)[:MOST]
            yield _row(closed, sample, kind, masks_Kn)


def _row(closed: Patched, sample: Sample, kind: str, masks_Kn: np.ndarray) -> GapRow:
    import retrofit
    from retrofit.closed.removable import SCOPES

    effects = []
    for scope in SCOPES:
        table = retrofit.Removable(
            closed, sample.X, sample.y, scope, n_estimators=MEMBERS, **sample.settings
        )
        without_KM = table.predict(sample.X_test, **{kind: masks_Kn})
        effects.append((without_KM - table.predict(sample.X_test)) / sample.y.std())
    of = dict(zip(SCOPES, effects, strict=True))
    gap_KM = of["model"] - of["pipeline"]
    return GapRow(
        data=sample.name,
        removed=kind.removesuffix("s"),
        removals=len(masks_Kn),
        pipeline=float(np.abs(of["pipeline"]).mean()),
        model=float(np.abs(of["model"]).mean()),
        gap=float(np.abs(gap_KM).mean()),
        gap_without_shift=float(np.abs(gap_KM - gap_KM.mean(axis=1, keepdims=True)).mean()),
        correlation=float(np.corrcoef(of["model"].ravel(), of["pipeline"].ravel())[0, 1]),
    )


_THREE = "{:.3f}".format
COLUMNS: tuple[Column[GapRow], ...] = (
    Column("data", "data set"),
    Column("removed", "removed"),
    Column("removals", "removals"),
    Column("pipeline", "effect, pipeline", _THREE),
    Column("model", "effect, model", _THREE),
    Column("gap", "gap", _THREE),
    Column("gap_without_shift", "gap without the common shift", _THREE),
    Column("correlation", "correlation of effects", "{:.2f}".format),
)
SAYS = (
    f"{TRAIN} rows of each packaged set, {MEMBERS} ensemble members: one row (the first {MOST}) or "
    f"one column (at most {MOST}) is removed at a time, and {TEST} other rows are predicted. An "
    "effect is the mean size of the change of a prediction, in standard deviations of the target; "
    "the gap is the same of the difference between the two scopes."
)
