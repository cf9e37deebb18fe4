"""What exact Shapley values of columns cost: a removable table beside shapiq's TabPFN imputer.

shapiq's refits for every coalition and every explained row, so it is timed on a part, and the rest
is reckoned from that.

Shapes: M explained rows, C columns, K = 2^C coalitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.removal.columns import explain
from experiments.removal.extras import optional
from experiments.report.columns import Column
from experiments.studies.bench.timer import interleaved, quartiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrofit import Patched
    from retrofit.closed.removable import Scope

EXPLAINED, COLUMNS_, PART = 30, 8, 16
"""Explained rows, columns, and coalitions of one row that shapiq's imputer is timed on."""


@dataclass(frozen=True)
class ShapleyRow:
    """One scope and how many ensemble members."""

    members: int
    scope: str
    rows: int
    columns: int
    coalitions: int
    ours_s: float
    """Median seconds for all rows and coalitions, preparation and estimator included."""
    shapiq_s: float
    """Median seconds of the imputer for as much, reckoned from ``part`` coalitions of one row."""
    part: int
    times: float
    """Median over the rounds of the imputer's seconds over ours."""
    low: float
    high: float
    """Quartiles of it."""
    deviation: float
    """Root mean square of the difference between the answers, in sd of the target."""


def bench_shapley(
    closed: Patched,
    X: np.ndarray,
    y: np.ndarray,
    *,
    members: int,
    rounds: int,
    device: str,
    explained: int = EXPLAINED,
    columns: int = COLUMNS_,
    part: int = PART,
) -> list[ShapleyRow]:
    """Exact Shapley values of the first rows by both scopes, and the imputer's part of the work.

    Raises:
        MissingExtraError: shapiq is not installed.
    """
    import pandas as pd

    import retrofit

    imputers = optional("shapiq.imputer.tabpfn_imputer", "explain")
    settings: dict[str, Any] = {"n_estimators": members, "random_state": 0, "device": device}
    X = X[:, :columns]
    test, every = X[:explained], np.array(list(product((False, True), repeat=columns)))
    chosen = every[1 + np.random.default_rng(0).choice(len(every) - 1, size=part, replace=False)]

    def imputed() -> np.ndarray:
        imputer = imputers.TabPFNImputer(
            closed.regressor(**settings),
            X,
            y,
            empty_prediction=float(y.mean()),
            predict_function=lambda model, x: model.predict(x)[0],
        )
        answers: np.ndarray = imputer.fit(test[:1]).value_function(chosen)
        return answers

    def explained_by(scope: Scope) -> Callable[[], object]:
        def work() -> object:
            table = retrofit.Removable(closed, X, y, scope, **settings)
            return explain(table, pd.DataFrame(test), budget=len(every))

        return work

    scopes: tuple[Scope, ...] = ("model", "pipeline")
    seconds = interleaved(
        {"shapiq": imputed, **{scope: explained_by(scope) for scope in scopes}}, rounds
    )
    whole = len(every) * explained / part
    found, reference = [], imputed()
    for scope in scopes:
        table = retrofit.Removable(closed, X, y, scope, **settings)
        apart = table.predict(test[:1], columns=chosen)[:, 0] - reference
        low, middle, high = quartiles(seconds["shapiq"] * whole, seconds[scope])
        found.append(
            ShapleyRow(
                members=members,
                scope=scope,
                rows=explained,
                columns=columns,
                coalitions=len(every),
                ours_s=float(np.median(seconds[scope])),
                shapiq_s=float(np.median(seconds["shapiq"]) * whole),
                part=part,
                times=middle,
                low=low,
                high=high,
                deviation=float(np.sqrt(np.mean(np.square(apart))) / y.std()),
            )
        )
    return found


COLUMNS: tuple[Column[ShapleyRow], ...] = (
    Column("members", "members"),
    Column("scope", "scope"),
    Column("coalitions", "coalitions"),
    Column("ours_s", "oretro", "{:.1f} s".format),
    Column("shapiq_s", "shapiq's imputer, reckoned", "{:.0f} s".format),
    Column("times", "times faster", "{:.0f}".format),
    Column("quartiles", "quartiles", str, lambda row: f"{row.low:.0f} to {row.high:.0f}"),
    Column("deviation", "deviation", "{:.1e}".format),
)
