"""Results as markdown. Every page says whose model it is about and what it does not claim."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from experiments.io.text import visible
from experiments.report.presence_sweep import presence_points
from experiments.sweep.schema import variant_rank
from experiments.sweep.variant_name import MARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from experiments.report.presence_sweep import PresencePoint
    from experiments.report.scores import ScoreChange
    from experiments.report.stats import VariantSummary
    from experiments.report.summary import BaselineRatio, Summary

MINI_NOTICE = (
    "The host `mini` is a small model of the TabPFN v3 architecture that this project trained on "
    "synthetic tasks. It is not Prior Labs' TabPFN v3, and these figures say nothing about that "
    "model's accuracy."
)
_LIMITS = (
    "Limits: calibrated near-identity on these cases only. No universal no-loss or superiority is "
    "claimed, no closure of the whole host{exception}, and no general meaning of missing values."
)
_CLOSED = "closed"
_NONE = "–"
_EPS = (1e-8, "absolute")
"""eps_den and its mode unless a configuration says otherwise."""


def summary_page(summary: Summary) -> str:
    """The whole of ``summary.md``."""
    config = summary.run.get("config", {})
    title = f"# {escape(config.get('suite', 'results'))} on host `{config.get('host', 'unknown')}`"
    parts = [title, table(*change_rows(summary.variants)), table(*test_rows(summary.variants))]
    parts.append(table(*score_rows(summary.scores)))
    points = presence_points(summary)
    if points:
        parts.append(f"## Target presence\n\n{table(*presence_rows(points))}")
    parts.append("\n".join(f"- {line}" for line in remarks(summary)))
    parts.append(f"## Cases\n\n{table(*case_rows(summary.pairs))}")
    if summary.failures:
        lines = "\n".join(f"- {escape(line)}" for line in summary.failures)
        parts.append(f"## Failed rows\n\n{lines}")
    return "\n\n".join(parts) + "\n"


Cells = tuple[str, ...]
Rows = list[Cells]


def change_rows(variants: Sequence[VariantSummary]) -> tuple[Cells, Rows]:
    """Header and rows: change of RMSE against stock, one line per variant."""
    header: Cells = (
        "variant",
        "cases",
        "mean RMSE change",
        "95 % interval, data sets",
        "median",
        "largest",
        "wins / ties / losses",
        "predict time / stock",
    )
    rows: Rows = [
        (
            item.variant,
            str(item.cases),
            percent(item.mean_pct),
            interval(item.ci_low_pct, item.ci_high_pct),
            percent(item.median_pct),
            percent(item.largest_pct, signed=False),
            f"{item.wins} / {item.ties} / {item.losses}",
            number(item.predict_ratio, "{:.2f}"),
        )
        for item in variants
    ]
    return header, rows


def case_rows(pairs: pd.DataFrame) -> tuple[Cells, Rows]:
    """Header and rows: stock's RMSE and every variant's change, one line per case."""
    names = sorted(pairs["variant"].unique(), key=variant_rank)
    header = ("data set", "seed", "RMSE stock", *(f"change {name}" for name in names))
    rows: Rows = []
    for (dataset, seed), case in pairs.groupby(["dataset", "seed"], sort=True):
        own = case.set_index("variant")
        changes = (percent(own["delta_pct"].get(name, math.nan)) for name in names)
        base = number(float(case["rmse_stock"].iloc[0]), "{:.6g}")
        rows.append((str(dataset), str(seed), base, *changes))
    return header, rows


def test_rows(variants: Sequence[VariantSummary]) -> tuple[Cells, Rows]:
    """Header and rows: tests over data sets, one line per variant."""
    header: Cells = (
        "variant",
        "data sets",
        "Wilcoxon p",
        "smallest p possible",
        "margin",
        "equivalence p",
    )
    rows: Rows = [
        (
            item.variant,
            str(item.datasets),
            number(item.wilcoxon_p, "{:.3g}"),
            number(item.wilcoxon_p_min, "{:.3g}"),
            f"{item.tost_margin_pct:g} %",
            number(item.tost_p, "{:.2g}"),
        )
        for item in variants
    ]
    return header, rows


def score_rows(scores: Sequence[ScoreChange]) -> tuple[Cells, Rows]:
    """Header and rows: the other scores beside stock's, means over cases, one line per variant."""
    header: Cells = (
        "variant",
        "MAE change",
        "R2 stock",
        "R2 change",
        "NLL change, nats",
        "80 % coverage stock",
        "80 % coverage variant",
    )
    rows: Rows = [
        (
            item.variant,
            percent(item.mae_pct),
            number(item.r2_stock, "{:.4f}"),
            number(item.r2_change, "{:+.2g}"),
            number(item.nll_change, "{:+.2g}"),
            number(100 * item.coverage_stock, "{:.2f} %"),
            number(100 * item.coverage_variant, "{:.2f} %"),
        )
        for item in scores
    ]
    return header, rows


def presence_rows(points: Sequence[PresencePoint]) -> tuple[Cells, Rows]:
    """Header and rows: one line per variant and target presence."""
    header: Cells = (
        "variant",
        "target presence",
        "mean RMSE change",
        "95 % interval, data sets",
        "largest",
        "null radius, median",
        "null radius, largest",
    )
    rows: Rows = [
        (
            point.variant,
            f"{point.target_presence:g}",
            percent(point.mean_pct),
            interval(point.ci_low_pct, point.ci_high_pct),
            percent(point.largest_pct, signed=False),
            number(point.null_radius_median, "{:.3g}"),
            number(point.null_radius_max, "{:.3g}"),
        )
        for point in points
    ]
    return header, rows


def remarks(summary: Summary) -> list[str]:
    """What a reader must know beside the figures, one sentence or two each."""
    lines = []
    for floor in summary.noise:
        lines.append(
            f"Noise floor, `{floor.condition}`: mean {percent(floor.mean_abs_pct, signed=False)}, "
            f"largest {percent(floor.largest_pct, signed=False)} over {floor.cases} cases."
        )
    swept = presence_points(summary)
    if swept:
        lines.append(
            "As the target presence goes to 1, tau and the RMSE change go to 0, and so does the "
            "null radius: a small change is no success by itself."
        )
    for name, radius in summary.null_radius.items():
        if MARK in name:
            continue
        lines.append(
            f"Null radius, `{name}`: median {radius.median:.3g}, largest {radius.max:.3g} of a "
            "stream's median carrier norm."
        )
    config = summary.run.get("config", {})
    if config and any(MARK not in item.variant for item in summary.variants):
        lines.append(_presence(config))
    eps = (config.get("eps_den", _EPS[0]), config.get("eps_mode", _EPS[1]))
    if eps != _EPS:
        lines.append(f"eps_den was {eps[0]:g}, {eps[1]}, rather than {_EPS[0]:g}, {_EPS[1]}.")
    left_out = max((item.left_out for item in summary.variants), default=0)
    if left_out:
        lines.append(
            f"{left_out} case(s) left out: one of the paired rows is missing or not `ok`, or "
            "stock's RMSE is 0. Means and medians are over the other cases, so a data set that "
            "lacks some weighs less; intervals and tests weigh all data sets equally."
        )
    if dead := summary.statuses.get("dead", 0):
        lines.append(
            f"{dead} of them because the host is dead there: stock predicts one value for all test "
            "rows, so no change can be measured."
        )
    if summary.run.get("host", {}).get("built_in"):
        lines.append(MINI_NOTICE)
    lines.append(limits(item.variant for item in summary.variants))
    return lines


def limits(variants: Iterable[str]) -> str:
    """What the figures of these variants do not claim."""
    closed = any(name.partition(MARK)[0] == _CLOSED for name in variants)
    return _LIMITS.format(exception=f" but for `{_CLOSED}`" if closed else "")


def baseline_page(summary: Summary) -> str:
    """The whole of ``baselines.md``."""
    header, rows = baseline_rows(summary.baselines)
    host = summary.run.get("config", {}).get("host", "unknown")
    lead = (
        f"# Stock host `{host}` against untuned scikit-learn models\n\n"
        "RMSE of the stock host divided by that of the baseline on the same splits, geometric mean "
        "over seeds; below 1 the host is better."
    )
    built_in = summary.run.get("host", {}).get("built_in")
    notice = f"\n\n{MINI_NOTICE}" if built_in else ""
    return f"{lead}\n\n{table(header, rows)}{notice}\n"


def baseline_rows(ratios: Sequence[BaselineRatio]) -> tuple[Cells, Rows]:
    """Header and rows: RMSE ratios, one line per data set, the geometric mean last."""
    datasets = sorted({name for ratio in ratios for name in ratio.by_dataset})
    header = ("data set", *(f"/ {ratio.baseline}" for ratio in ratios))
    rows: Rows = [
        (name, *(_ratio(ratio.by_dataset.get(name, math.nan)) for ratio in ratios))
        for name in datasets
    ]
    rows.append(("geometric mean", *(_ratio(ratio.overall) for ratio in ratios)))
    return header, rows


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table; the first column is text, the others are aligned right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    escaped = [[escape(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *escaped))


def percent(value: float, *, signed: bool = True) -> str:
    """A change in percent to the fourth digit, or two significant digits where it is smaller."""
    if math.isnan(value):
        return _NONE
    if value == 0:
        return "0 %"
    text = f"{value:+.4f}" if abs(value) >= 1e-3 else f"{value:+.1e}"
    return f"{text if signed else text.lstrip('+')} %"


def interval(low: float, high: float) -> str:
    """Two changes in percent, a dash where there is no interval."""
    return _NONE if math.isnan(low) else f"{percent(low)} to {percent(high)}"


def number(value: float, form: str) -> str:
    """A number in the given format, a dash for NaN."""
    return _NONE if math.isnan(value) else form.format(value)


def escape(text: Any) -> str:
    """Text that cannot end a table cell, start a formula or open a tag."""
    escaped = visible(text)
    for mark in "\\`*_$|<>[]":
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped


def _presence(config: dict[str, Any]) -> str:
    if config.get("tau") is not None:
        return f"tau was given: {config['tau']:g} at every site."
    return (
        "tau was calibrated per site so that the smallest legitimate carriers have presence "
        f"{config['target_presence']:g}."
    )


def _ratio(value: float) -> str:
    return number(value, "{:.3f}")
