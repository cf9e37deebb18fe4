"""What the commands of removal leave: tables, a page, a figure, a record."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.report import markdown
from experiments.report.columns import Column, show
from experiments.report.plot_style import Picture, label, literal, new_figure, render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

SCOPES = {
    "model": (
        "Scope `model`: features were prepared once, on the whole table, then rows or columns were "
        "taken away from the model. These are not the answers of refits."
    ),
    "pipeline": (
        "Scope `pipeline`: every answer is that of an estimator prepared on what remained, as if "
        "the rest had never been there."
    ),
}
_SHOWN = 20


def four(value: float) -> str:
    """A figure to four significant digits."""
    return f"{value:.4g}"


def page(title: str, command: Sequence[str], scope: str, notice: str, parts: Sequence[str]) -> str:
    """A page of markdown: what, how it was made, what it may be called, and the parts."""
    made = f"Made by `{shlex.join(command)}`."
    return markdown.page([f"# {title}", *filter(None, [notice]), SCOPES[scope], *parts, made])


def ranked(names: Sequence[str], figures: np.ndarray, header: str, what: str) -> str:
    """The largest figures as a table of markdown."""
    order = np.argsort(-np.abs(figures), kind="stable")[:_SHOWN]
    rows = [{"name": str(names[place]), "figure": float(figures[place])} for place in order]
    columns: list[Column[dict[str, Any]]] = [
        Column("name", header, str, lambda row: row["name"]),
        Column("figure", what, four, lambda row: row["figure"]),
    ]
    return markdown.table(*show(columns, rows))


def bars(name: str, title: str, names: Sequence[str], figures: np.ndarray, unit: str) -> Picture:
    """The largest figures as horizontal bars.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    order = np.argsort(-np.abs(figures), kind="stable")[:_SHOWN][::-1]

    def draw() -> Figure:
        figure, (axes,) = new_figure(6.4, 1.2 + 0.24 * len(order))
        colours = ["#0072b2" if figures[place] >= 0 else "#d55e00" for place in order]
        axes.barh(range(len(order)), figures[order], color=colours)
        axes.set_yticks(range(len(order)), [label(names[place]) for place in order])
        axes.set_xlabel(unit)
        axes.set_title(title, fontsize=9)
        literal(list(axes.get_yticklabels()))
        return figure

    return render(name, title, draw)


def frame_of(columns: dict[str, Any]) -> pd.DataFrame:
    """Columns of one length as a frame."""
    frame: pd.DataFrame = pd.DataFrame({n: np.asarray(values) for n, values in columns.items()})
    return frame
