"""The tables of a results folder, whatever they are shown in: each column stands here once.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.report.columns import Cells, Column, interval, percent, show, size
from experiments.report.presence_sweep import presence_points
from experiments.report.scores import score_columns
from experiments.sweep.schema import variant_rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from experiments.report.presence_sweep import PresencePoint
    from experiments.report.stats import VariantSummary
    from experiments.report.summary import BaselineRatio, Summary

_VARIANT: Column[Any] = Column("variant", "variant")
_INTERVAL: Column[Any] = Column(
    "", "95 % interval, data sets", interval, lambda item: (item.ci_low_pct, item.ci_high_pct)
)
CHANGES: tuple[Column[VariantSummary], ...] = (
    _VARIANT,
    Column("cases", "cases"),
    Column("mean_pct", "mean RMSE change", percent),
    _INTERVAL,
    Column("median_pct", "median", percent),
    Column("largest_pct", "largest", size),
    Column("", "wins / ties / losses", str, lambda v: f"{v.wins} / {v.ties} / {v.losses}"),
    Column("predict_ratio", "predict time / stock", "{:.2f}".format),
)
TESTS: tuple[Column[VariantSummary], ...] = (
    _VARIANT,
    Column("datasets", "data sets"),
    Column("wilcoxon_p", "Wilcoxon p", "{:.3g}".format),
    Column("wilcoxon_p_min", "smallest p possible", "{:.3g}".format),
    Column("tost_margin_pct", "margin", "{:g} %".format),
    Column("tost_p", "equivalence p", "{:.2g}".format),
)
PRESENCE: tuple[Column[PresencePoint], ...] = (
    _VARIANT,
    Column("target_presence", "target presence", "{:g}".format),
    Column("mean_pct", "mean RMSE change", percent),
    _INTERVAL,
    Column("largest_pct", "largest", size),
    Column("null_radius_median", "null radius, median", "{:.3g}".format),
    Column("null_radius_max", "null radius, largest", "{:.3g}".format),
)


class Part(NamedTuple):
    """One table of a report."""

    title: str
    table: Cells


def parts(summary: Summary) -> dict[str, Part]:
    """Every table of a folder, in reading order; without rows where the results have none."""
    variants = summary.variants
    return {
        "changes": Part("RMSE change against stock", show(CHANGES, variants)),
        "tests": Part("Tests over data sets", show(TESTS, variants)),
        "presence": Part("Target presence", show(PRESENCE, presence_points(summary))),
        "scores": Part(
            "Other scores", show([_VARIANT, *score_columns(summary.own)], summary.scores)
        ),
        "baselines": Part(
            "RMSE of the stock host / RMSE of a baseline", _baselines(summary.baselines)
        ),
        "cases": Part("RMSE change of each case", _cases(summary.pairs)),
    }


def _cases(pairs: pd.DataFrame) -> Cells:
    """Stock's RMSE and every variant's change, one line per case."""
    names = sorted(pairs["variant"].unique(), key=variant_rank)
    columns: list[Column[Any]] = [
        Column("dataset", "data set"),
        Column("seed", "seed"),
        Column("stock", "RMSE stock", "{:.6g}".format),
        *(Column(name, f"change {name}", percent) for name in names),
    ]
    rows = []
    for (dataset, seed), case in pairs.groupby(["dataset", "seed"], sort=True):
        changes = zip(case["variant"], case["delta_pct"], strict=True)
        stock = float(case["rmse_stock"].iloc[0])
        rows.append({"dataset": str(dataset), "seed": seed, "stock": stock, **dict(changes)})
    return show(columns, rows)


def _baselines(ratios: Sequence[BaselineRatio]) -> Cells:
    """RMSE ratios, one line per data set, the geometric mean last."""
    names = sorted({name for ratio in ratios for name in ratio.by_dataset})
    columns: list[Column[Any]] = [
        Column("dataset", "data set"),
        *(Column(ratio.baseline, f"/ {ratio.baseline}", "{:.3f}".format) for ratio in ratios),
    ]
    means = {ratio.baseline: ratio.overall for ratio in ratios}
    rows = [
        {"dataset": name, **{r.baseline: r.by_dataset.get(name, math.nan) for r in ratios}}
        for name in names
    ]
    return show(columns, [*rows, {"dataset": "geometric mean", **means}] if ratios else [])
