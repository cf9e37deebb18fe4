"""Figures of a results folder: forest plot, tau per site, presence sweep.

Imports neither torch nor tabpfn; matplotlib comes with the extra ``plots``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from experiments.report import presence_sweep
from experiments.report.columns import size
from experiments.report.plot_style import (
    BAND,
    GRID,
    INK,
    MUTED,
    SURFACE,
    Picture,
    colour,
    label,
    literal,
    marker,
    new_figure,
    render,
)
from experiments.sweep import variant_name
from experiments.sweep.schema import variant_rank

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.report.summary import Summary

_MAX_CASE_ROWS = 90
"""Beyond so many cases a forest plot has one row per data set, with all its seeds on it."""
_ROW_INCHES = 0.23
_LINEAR_PCT = 0.01
"""Changes of RMSE within it are drawn on a linear scale in the presence sweep."""


def pictures(summary: Summary) -> tuple[Picture, ...]:
    """All figures that a folder's results allow.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    drawn = []
    whose = about(summary)
    names = _plain_variants(summary)
    if names:
        title = f"RMSE change of each case against stock; {whose}"
        drawn.append(render("forest", title, lambda: _forest(summary, names)))
    if presence_sweep.presence_points(summary):
        title = f"RMSE change and null radius against target presence; {whose}"
        drawn.append(render("presence_sweep", title, lambda: _presence(summary)))
    if summary.run.get("patches"):
        title = f"tau and null radius of each stream; {whose}"
        drawn.append(render("tau", title, lambda: _tau(summary)))
    return tuple(drawn)


def about(summary: Summary) -> str:
    """Whose figures these are, for a title."""
    note = " (this project's own, not Prior Labs' model)" if summary.built_in else ""
    return f"{label(summary.suite)} on host {label(summary.host)}{note}"


def _plain_variants(summary: Summary) -> list[str]:
    """Variants at the target presence of the configuration; a sweep over it has its own figure."""
    names = [item.variant for item in summary.variants]
    return [name for name in names if variant_name.MARK not in name]


def _forest(summary: Summary, names: list[str]) -> Figure:
    pairs = summary.pairs[summary.pairs["variant"].isin(names)]
    rows = _forest_rows(pairs)
    height = 1.5 + _ROW_INCHES * (len(rows) + len(names))
    figure, (axes,) = new_figure(7.2, height)
    noise = summary.noise_pct
    if not math.isnan(noise):
        # The edge keeps the band visible where it is thinner than a pixel.
        text = f"noise floor: ±{size(noise)}"
        axes.axvspan(-noise, noise, facecolor=BAND, edgecolor=BAND, linewidth=1.2, label=text)
    axes.axvline(0, color=INK, linewidth=0.8, zorder=1)
    position = {row: -index for index, row in enumerate(rows)}
    spread = 0.5 / max(len(names), 1)
    for turn, name in enumerate(names):
        own = pairs[pairs["variant"] == name]
        offset = spread * ((len(names) - 1) / 2 - turn)
        keys = own.apply(_row_key(rows), axis=1) if len(own) else []
        axes.plot(
            own["delta_pct"].to_numpy(),
            [position[key] + offset for key in keys],
            linestyle="none",
            marker=marker(name),
            markersize=4.5,
            markeredgewidth=0,
            color=colour(name),
            label=name,
        )
    ticks = [label(" · ".join(row)) for row in rows]
    for turn, name in enumerate(names):
        _mean(axes, summary, name, -len(rows) - turn - 0.4)
        ticks.append(f"mean, {name}")
    _margins(axes, summary)
    axes.set_yticks(
        [*position.values(), *(-len(rows) - turn - 0.4 for turn in range(len(names)))], ticks
    )
    axes.axhline(-len(rows) + 0.3, color=GRID, linewidth=0.8)
    literal(axes.get_yticklabels())
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("change of RMSE against stock, percent (left of 0: smaller error)")
    literal(axes.set_title(about(summary), loc="left", fontsize=9.5))
    figure.legend(loc="outside lower left", ncols=4, fontsize=8)
    return figure


def _forest_rows(pairs: pd.DataFrame) -> list[tuple[str, ...]]:
    cases = sorted(set(zip(pairs["dataset"], pairs["seed"].tolist(), strict=True)))
    if len(cases) <= _MAX_CASE_ROWS:
        return [(dataset, str(seed)) for dataset, seed in cases]
    return sorted({(dataset,) for dataset, _ in cases})


def _row_key(rows: list[tuple[str, ...]]) -> Any:
    parts = len(rows[0]) if rows else 2
    return lambda row: (str(row["dataset"]), str(row["seed"]))[:parts]


def _mean(axes: Axes, summary: Summary, name: str, height: float) -> None:
    """The mean with its bootstrap interval over data sets."""
    (item,) = (one for one in summary.variants if one.variant == name)
    if math.isnan(item.mean_pct):
        return
    if not math.isnan(item.ci_low_pct):
        axes.plot(
            [item.ci_low_pct, item.ci_high_pct],
            [height] * 2,
            color=colour(name),
            linewidth=2.2,
            solid_capstyle="butt",
        )
    axes.plot(item.mean_pct, height, marker="d", markersize=7, color=colour(name))


def _margins(axes: Axes, summary: Summary) -> None:
    """The equivalence margin as lines where it is near the points, in words where it is not."""
    margin = summary.variants[0].tost_margin_pct
    largest = max((abs(value) for value in axes.get_xlim()), default=0.0)
    if margin <= 1.5 * largest:
        for side in (-margin, margin):
            axes.axvline(side, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.plot([], [], color=MUTED, linestyle=(0, (4, 3)), label=f"margin: ±{margin:g} %")
    else:
        axes.plot([], [], linestyle="none", label=f"margin ±{margin:g} % lies outside")


def _tau(summary: Summary) -> Figure:
    patches: dict[str, Any] = summary.run["patches"]
    names = sorted(patches, key=variant_rank)
    # Of a presence sweep one target says it: tau of the others differs by a factor.
    by_base = {variant_name.parse(name).base: name for name in reversed(names)}
    shown = [name for name in names if variant_name.MARK not in name] or sorted(
        by_base.values(), key=variant_rank
    )
    streams = {
        name: {item["name"]: item for item in patches[name].get("streams", [])} for name in shown
    }
    order = list(dict.fromkeys(stream for own in streams.values() for stream in own))
    figure, (left, right) = new_figure(9.2, 1.3 + 0.21 * max(len(order), 1), columns=2)
    for turn, name in enumerate(shown):
        offset = 0.16 * ((len(shown) - 1) / 2 - turn)
        base = variant_name.parse(name).base
        for axes, field in ((left, "tau"), (right, "null_radius")):
            points = [
                (streams[name][stream][field], -index + offset)
                for index, stream in enumerate(order)
                if stream in streams[name] and streams[name][stream].get(field) is not None
            ]
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    linestyle="none",
                    marker=marker(base),
                    markersize=4,
                    markeredgewidth=0,
                    color=colour(base),
                    label=name if axes is left else None,
                )
    left.set_yticks([-index for index in range(len(order))], [label(name, 80) for name in order])
    right.set_yticks([-index for index in range(len(order))], [])
    literal(left.get_yticklabels())
    left.tick_params(axis="y", labelsize=6.5, length=0)
    right.tick_params(axis="y", length=0)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_ylim(-len(order) + 0.4, 0.6)
    left.set_xlabel("tau, in units of the squared carrier norm")
    right.set_xlabel("null radius / median carrier norm")
    literal(figure.suptitle(about(summary), x=0.01, ha="left", fontsize=9.5))
    figure.legend(loc="outside lower left", ncols=4, fontsize=8)
    return figure


def _presence(summary: Summary) -> Figure:
    figure, (left, right) = new_figure(9.2, 3.9, columns=2)
    grouped = presence_sweep.by_variant(presence_sweep.presence_points(summary))
    for number, (name, points) in enumerate(grouped.items()):
        gap = [1.0 - point.target_presence for point in points]
        # A little apart, so that the intervals of the variants do not cover each other.
        beside = [x * 1.06 ** (number - (len(grouped) - 1) / 2) for x in gap]
        style: dict[str, Any] = {
            "color": colour(name),
            "marker": marker(name),
            "markersize": 5,
            "markerfacecolor": SURFACE,
        }
        mean = [point.mean_pct for point in points]
        low = [point.mean_pct - point.ci_low_pct for point in points]
        high = [point.ci_high_pct - point.mean_pct for point in points]
        left.errorbar(beside, mean, yerr=[low, high], capsize=3, linewidth=1.4, label=name, **style)
        median = [point.null_radius_median for point in points]
        largest = [point.null_radius_max for point in points]
        right.plot(gap, median, linewidth=1.4, **style)
        right.plot(gap, largest, linewidth=1.1, linestyle=(0, (4, 3)), color=colour(name))
    noise = summary.noise_pct
    if not math.isnan(noise):
        left.axhspan(-noise, noise, facecolor=BAND, edgecolor=BAND, linewidth=1.2)
    left.axhline(0, color=INK, linewidth=0.8)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.invert_xaxis()
        axes.set_xlabel("1 − target presence (to the right: tau → 0)")
        ticks = sorted({1.0 - point.target_presence for own in grouped.values() for point in own})
        axes.set_xticks(ticks, [f"{tick:.4g}" for tick in ticks], rotation=35, fontsize=8)
        axes.minorticks_off()
    right.set_yscale("log")
    # Logarithmic both ways from zero: the changes span four powers of ten and both signs.
    left.set_yscale("symlog", linthresh=_LINEAR_PCT)
    left.yaxis.set_major_formatter("{x:g}")
    left.set_ylabel(f"mean RMSE change, % (linear to ±{_LINEAR_PCT:g})")
    right.set_ylabel("null radius (solid: median, dashed: largest)")
    literal(figure.suptitle(about(summary), x=0.01, ha="left", fontsize=9.5))
    figure.legend(loc="outside lower left", ncols=4, fontsize=8)
    return figure
