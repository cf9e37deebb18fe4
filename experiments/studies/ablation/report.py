"""The two-block ablation as files: CSV, markdown, one figure, run record."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from experiments.machine import provenance
from experiments.report import markdown
from experiments.report.columns import Cells
from experiments.report.plot_style import MUTED, OTHER_COLOUR, Picture, colour, new_figure, render
from experiments.studies.ablation.ablation import (
    HOSTS,
    LEAVE_ONE_OUT,
    STUDY,
    after_last_block,
    summarise,
)
from experiments.studies.writer import write_study

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.studies.ablation.ablation import AblationConfig

_COLOURS = {"standard": MUTED, "OA-only": colour("oa"), "OTransformer": colour("full")}
_FLOOR = 1e-17
"""Where a shift of exactly 0 is drawn on a logarithmic axis."""


def write_ablation(
    figures: pd.DataFrame,
    config: AblationConfig,
    folder: Path,
    command: Sequence[str],
    *,
    with_figure: bool = True,
) -> list[Path]:
    """Write ``ablation.{csv,md,json}``, ``ablation_seeds.csv`` and the figure; return their paths.

    Raises:
        MissingExtraError: a figure is wanted and matplotlib is not installed.
        ResultsError: the folder cannot be written.
    """
    summary = summarise(figures)
    record = provenance.record(command, config=asdict(config))
    record["machine"]["torch_threads"] = config.threads
    seeds = after_last_block(figures).drop(columns="block")
    pictures = [draw(summary)] if with_figure else []
    tables = {"ablation": summary, "ablation_seeds": seeds}
    return write_study(folder, "ablation", tables, page(summary, config), record, pictures=pictures)


def page(summary: pd.DataFrame, config: AblationConfig) -> str:
    """The figures as markdown, one table per kind of host and depth."""
    lead = (
        f"{config.seeds} seeds, {config.tokens} tokens of unit variance, drawn weights, one "
        "zero token at a seeded place. `old tokens moved` is the largest change of any "
        "component of an old token after the last block, as the median over the seeds and, in "
        "brackets, the largest; `zero token` is its largest component after any block of any "
        "seed. All on one thread: several share the rows of a matrix product out by their "
        "number, and then one row more moves last bits of the others. The paper reports a "
        "shift of about 7.98 with OAttention alone and about 0 with all components; its sizes "
        "and weights are not known to us."
    )
    kinds = (
        "*Biased* hosts have LayerNorm, projections and feed-forward with biases. *Bias-free* "
        "hosts have RMSNorm and no bias, as newer TabPFNs' blocks: there a zero token stays zero "
        "by itself once attention lets it, so OFFN and ONorm do not matter for exactness. In "
        "pre-norm hosts ONorm does not matter either, because the attention's own gates "
        "silence whatever the norm makes of a zero token."
    )
    tables = [markdown.section(title, markdown.table(*cells)) for title, cells in overview(summary)]
    return markdown.page(["# Two-block ablation: a zero token is inserted", lead, kinds, *tables])


def overview(summary: pd.DataFrame) -> Iterator[tuple[str, Cells]]:
    """Title and table of each kind of host and depth: hosts by width and dtype."""
    by_depth = summary.sort_values("depth", kind="stable")
    for keys, whole in by_depth.groupby(["depth", "layers", "norm_placement"], sort=False):
        depth, layers, placement = keys
        yield f"{depth} blocks, {layers}, {placement}-norm", _cells(whole)


def _cells(whole: pd.DataFrame) -> Cells:
    last = after_last_block(whole).set_index(["width", "dtype", "host"])
    columns = list(dict.fromkeys((width, dtype) for width, dtype, _ in last.index))
    header = [f"old tokens moved, width {width}, {dtype}" for width, dtype in columns]
    rows = []
    for host in HOSTS:
        shifts = [last.loc[width, dtype, host.name] for width, dtype in columns]
        moved = [f"{x['old_shift_median']:.2g} ({x['old_shift_max']:.2g})" for x in shifts]
        size = whole[whole["host"] == host.name]["null_size_max"].max()
        rows.append((host.name, *moved, "0" if size == 0 else f"{size:.3g}"))
    return Cells(("host", *header, "zero token"), rows)


def draw(summary: pd.DataFrame) -> Picture:
    """The figure: three hosts block by block, and the hosts that lack one component.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    title = (
        "Change of old tokens when a zero token is inserted: standard host, OA-only host and "
        "OTransformer after each block, and the OTransformer with one component left out"
    )
    return render("ablation", title, lambda: _draw(summary))


def _draw(summary: pd.DataFrame) -> Figure:
    figure, (left, right) = new_figure(8.4, 3.6, columns=2)
    width, depth = summary["width"].max(), summary["depth"].max()
    chosen = summary[(summary["width"] == width) & (summary["dtype"] == "float64")]
    _draw_blocks(left, chosen[chosen["depth"] == depth])
    _draw_leave_one_out(right, after_last_block(chosen[chosen["depth"] == chosen["depth"].min()]))
    left.set_title(f"{depth} blocks, biased, pre-norm, width {width}, float64", fontsize=9)
    right.set_title(f"{chosen['depth'].min()} blocks, one component left out", fontsize=9)
    return figure


def _draw_blocks(axes: Axes, rows: pd.DataFrame) -> None:
    rows = rows[(rows["layers"] == "biased") & (rows["norm_placement"] == "pre")]
    for host in STUDY:
        own = rows[rows["host"] == host.name]
        axes.plot(
            own["block"],
            own["old_shift_median"].clip(lower=_FLOOR),
            marker="o",
            markersize=4,
            color=_COLOURS[host.name],
            label=host.name,
        )
    axes.set_yscale("log")
    axes.set_ylim(_FLOOR, 30)
    axes.set_xlabel("block")
    axes.set_ylabel("old tokens moved (L-inf, median)")
    axes.legend(loc="center right")


def _draw_leave_one_out(axes: Axes, rows: pd.DataFrame) -> None:
    kinds = [
        ("biased", "pre", colour("oa")),
        ("biased", "post", colour("full")),
        ("bias-free", "pre", OTHER_COLOUR),
    ]
    hosts = [STUDY[2], *LEAVE_ONE_OUT]
    for turn, (layers, placement, shade) in enumerate(kinds):
        own = rows[(rows["layers"] == layers) & (rows["norm_placement"] == placement)]
        values = own.set_index("host")["old_shift_median"].reindex([host.name for host in hosts])
        axes.barh(
            [-index - 0.26 * turn for index in range(len(hosts))],
            values.clip(lower=_FLOOR),
            height=0.24,
            color=shade,
            label=f"{layers}, {placement}-norm",
        )
    axes.set_xscale("log")
    axes.set_xlim(_FLOOR, 30)
    axes.set_yticks([-index - 0.26 for index in range(len(hosts))], [host.name for host in hosts])
    axes.set_xlabel("old tokens moved (L-inf, median)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.3, -0.32), ncols=3, fontsize=7)
