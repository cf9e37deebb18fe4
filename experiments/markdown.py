"""Results as markdown. Every page says whose model it is about and what it does not claim."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from experiments.stats import VariantSummary
    from experiments.summary import Summary

MINI_NOTICE = (
    "The host `mini` is a small model of the TabPFN v3 architecture that this project trained on "
    "synthetic tasks. It is not Prior Labs' TabPFN v3, and these figures say nothing about that "
    "model's accuracy."
)
LIMITS = (
    "Limits: calibrated near-identity on these cases only. No universal no-loss or superiority is "
    "claimed, no closure of the whole host, and no general meaning of missing values."
)
_NONE = "–"


def summary_page(summary: Summary) -> str:
    """The whole of ``summary.md``."""
    config = summary.run.get("config", {})
    title = f"# {escape(config.get('suite', 'results'))} on host `{config.get('host', 'unknown')}`"
    parts = [title, change_table(summary.variants), test_table(summary.variants)]
    parts.append("\n".join(f"- {line}" for line in remarks(summary)))
    if summary.failures:
        lines = "\n".join(f"- {escape(line)}" for line in summary.failures)
        parts.append(f"## Failed rows\n\n{lines}")
    return "\n\n".join(parts) + "\n"


def change_table(variants: Sequence[VariantSummary]) -> str:
    """Change of RMSE against stock, one line per variant."""
    header = (
        "variant",
        "cases",
        "mean RMSE change",
        "95 % interval",
        "median",
        "largest",
        "wins / ties / losses",
        "predict time / stock",
    )
    rows = (
        (
            f"`{item.variant}`",
            str(item.cases),
            percent(item.mean_pct),
            f"{percent(item.ci_low_pct)} to {percent(item.ci_high_pct)}",
            percent(item.median_pct),
            percent(item.largest_pct, signed=False),
            f"{item.wins} / {item.ties} / {item.losses}",
            number(item.predict_ratio, "{:.2f}"),
        )
        for item in variants
    )
    return table(header, rows)


def test_table(variants: Sequence[VariantSummary]) -> str:
    """Tests over data sets, one line per variant."""
    header = (
        "variant",
        "data sets",
        "Wilcoxon p",
        "smallest p possible",
        "margin",
        "equivalence p",
    )
    rows = (
        (
            f"`{item.variant}`",
            str(item.datasets),
            number(item.wilcoxon_p, "{:.3g}"),
            number(item.wilcoxon_p_min, "{:.3g}"),
            f"{item.tost_margin_pct:g} %",
            number(item.tost_p, "{:.2g}"),
        )
        for item in variants
    )
    return table(header, rows)


def remarks(summary: Summary) -> list[str]:
    """What a reader must know beside the figures, one sentence or two each."""
    lines = []
    for floor in summary.noise:
        lines.append(
            f"Noise floor, `{floor.condition}`: mean {percent(floor.mean_abs_pct, signed=False)}, "
            f"largest {percent(floor.largest_pct, signed=False)} over {floor.cases} cases. "
        )
    for name, radius in summary.null_radius.items():
        lines.append(
            f"Null radius, `{name}`: median {radius.median:.3g}, largest {radius.max:.3g} of a "
            "stream's median carrier norm."
        )
    config = summary.run.get("config", {})
    if config:
        lines.append(_presence(config))
    left_out = max((item.left_out for item in summary.variants), default=0)
    if left_out:
        lines.append(f"{left_out} case(s) left out: one of the paired rows is missing or not `ok`.")
    if summary.run.get("host", {}).get("built_in"):
        lines.append(MINI_NOTICE)
    lines.append(LIMITS)
    return [line.strip() for line in lines]


def baseline_page(summary: Summary) -> str:
    """The whole of ``baselines.md``."""
    datasets = sorted({name for ratio in summary.baselines for name in ratio.by_dataset})
    header = ("data set", *(f"/ {ratio.baseline}" for ratio in summary.baselines))
    rows = [
        (escape(name), *(_ratio(r.by_dataset.get(name, math.nan)) for r in summary.baselines))
        for name in datasets
    ]
    rows.append(("**geometric mean**", *(f"**{_ratio(r.overall)}**" for r in summary.baselines)))
    host = summary.run.get("config", {}).get("host", "unknown")
    lead = (
        f"# Stock host `{host}` against untuned scikit-learn models\n\n"
        "RMSE of the stock host divided by that of the baseline on the same splits, geometric mean "
        "over seeds; below 1 the host is better."
    )
    built_in = summary.run.get("host", {}).get("built_in")
    notice = f"\n\n{MINI_NOTICE}" if built_in else ""
    return f"{lead}\n\n{table(header, rows)}{notice}\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table; the first column is text, the others are aligned right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def percent(value: float, *, signed: bool = True) -> str:
    """A change in percent to the fourth digit, or two significant digits where it is smaller."""
    if math.isnan(value):
        return _NONE
    text = f"{value:+.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:+.1e}"
    return f"{text if signed else text.lstrip('+')} %"


def number(value: float, form: str) -> str:
    """A number in the given format, a dash for NaN."""
    return _NONE if math.isnan(value) else form.format(value)


def escape(text: Any) -> str:
    """Text that cannot end a table cell, start a formula or open a tag."""
    escaped = " ".join(str(text).split())
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
