"""The figure of stored predictions: every variant's against stock's, row by row.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.errors import MissingExtraError
from experiments.report.plot_style import (
    INK,
    Picture,
    colour,
    literal,
    marker,
    new_figure,
    render,
)
from experiments.sweep.schema import VARIANT_ORDER
from experiments.sweep.variant_name import STOCK, parse

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.figure import Figure

FILE = "predictions.parquet"
_MOST_POINTS = 1500
"""Of each variant; of more rows every n-th is drawn."""
_MOST_PANELS = 4


def prediction_pictures(folder: Path, about: str) -> tuple[Picture, ...]:
    """Stock's predictions against each variant's; nothing where none were stored.

    Raises:
        MissingExtraError: matplotlib is not installed, or nothing here reads parquet.
    """
    path = folder / FILE
    if not path.is_file():
        return ()
    import pandas as pd

    try:
        table = pd.read_parquet(path)
    except ImportError:
        raise MissingExtraError(
            f"{path} needs pyarrow to be drawn; pip install -U pyarrow, or pass --no-figures"
        ) from None
    if STOCK not in table.columns:
        return ()
    names = [
        name
        for name in table.columns
        if name != STOCK and name.partition("@")[0] in VARIANT_ORDER and table[name].notna().any()
    ][:_MOST_PANELS]
    if not names:
        return ()
    title = f"Prediction of each test row against stock's; {about}"
    return (render("predictions", title, lambda: _scatter(_standardised(table, names), about)),)


def _standardised(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Predictions in units of their data set's spread of targets, so that all share an axis."""
    by_set = table.groupby("dataset")["y"]
    centre, spread = by_set.transform("mean"), by_set.transform("std").where(lambda s: s > 0)
    scaled: pd.DataFrame = table[[STOCK, *names]].sub(centre, axis=0).div(spread, axis=0)
    return scaled


def _scatter(points: pd.DataFrame, about: str) -> Figure:
    names = [name for name in points.columns if name != STOCK]
    figure, panels = new_figure(1.2 + 3.0 * len(names), 3.7, columns=len(names))
    for axes, name in zip(panels, names, strict=True):
        known = points[[STOCK, name]].dropna()
        shown = known.iloc[:: max(1, -(-len(known) // _MOST_POINTS))]
        base = parse(name).base
        axes.axline((0, 0), slope=1, color=INK, linewidth=0.8, zorder=1)
        axes.plot(
            shown[STOCK].to_numpy(),
            shown[name].to_numpy(),
            linestyle="none",
            marker=marker(base),
            markersize=2.5,
            markeredgewidth=0,
            alpha=0.6,
            color=colour(base),
        )
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xlabel("stock's prediction, in SD of the target")
        every = "" if len(shown) == len(known) else f", {len(shown)} of {len(known)} rows"
        literal(axes.set_title(f"{name}{every}", loc="left", fontsize=9))
    panels[0].set_ylabel("the variant's")
    literal(figure.suptitle(about, x=0.01, ha="left", fontsize=9.5))
    return figure
