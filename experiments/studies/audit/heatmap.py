"""The audit as a heat map: stages across, insertions down, one panel per variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.report.plot_style import INK, label, literal, new_figure, render

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from experiments.report.plot_style import Picture

NAME = "audit"
_FLOOR, _CEILING = -16.0, 0.0


def picture(stages: pd.DataFrame, host: str) -> Picture:
    """How far old states shift, on a logarithmic scale: the raw table, carriers, own violations.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    title = f"How far NULL rows and columns shift the other states of {host}, stage by stage"
    return render(NAME, title, lambda: _draw(stages, title))


def _draw(stages: pd.DataFrame, title: str) -> Figure:
    shown = stages[stages["entry"] != "raw missing"]
    shown = shown.assign(row=shown["entry"].str.split().str[0] + ": " + shown["insertion"])
    rows = list(_by_way(shown["row"].unique()))
    names = shown.sort_values("order")["label"].unique()
    variants = list(shown["variant"].unique())
    width = 1.8 + 0.15 * len(names) * len(variants)
    figure, axes = new_figure(width, 1.6 + 0.15 * len(rows), columns=len(variants))
    for panel, variant in zip(axes, variants, strict=True):
        part = shown[shown["variant"] == variant]
        grid = part.pivot_table(index="row", columns="order", values="relative_shift")
        shifts = grid.reindex(rows).sort_index(axis=1).to_numpy()
        logs = np.log10(np.clip(shifts, 10.0**_FLOOR, None))
        image = panel.imshow(logs, vmin=_FLOOR, vmax=_CEILING, cmap="cividis", aspect="auto")
        panel.set_title(variant, fontsize=9)
        panel.grid(visible=False)
        panel.set_xticks(range(len(names)), [label(name) for name in names], rotation=90)
        panel.set_yticks(range(len(rows)), rows if panel is axes[0] else [""] * len(rows))
        panel.tick_params(labelsize=6, length=2)
        literal([*panel.get_xticklabels(), *panel.get_yticklabels()])
        for boundary in range(1, len(rows)):
            if rows[boundary].split(":")[0] != rows[boundary - 1].split(":")[0]:
                panel.axhline(boundary - 0.5, color=INK, linewidth=0.8)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.01)
    bar.ax.tick_params(labelsize=6)
    bar.set_label("log10 of the relative shift", fontsize=7)
    figure.suptitle(title, fontsize=9)
    return figure


def _by_way(rows: np.ndarray) -> list[str]:
    ways = ("raw", "carrier", "own")
    return sorted(rows, key=lambda row: ways.index(row.split(":")[0]))
