"""The audit as a markdown page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from experiments.report import markdown
from experiments.report.remarks import notice
from experiments.studies.audit.leaks import leaks

if TYPE_CHECKING:
    import pandas as pd

_SCALE = (
    "Figures are relative to the largest entry of the same tensor, in float64 on a small "
    "synthetic table; a place leaks beyond {tolerance:g}."
)
_LIMITS = (
    "Limits: a NULL row or column is one that the user declares. Nothing is said of missing "
    "values, whose meaning stays with the host, nor of any other host."
)
_SITES = (
    "How many sites absorb them, out of all of a kind; the others revive them (give them a state) "
    "or dilute (move other tokens because of them)."
)
_WAYS = (
    "Three ways in: `raw`, cells in the table (zeros; for `closed` declared, holding garbage); "
    "`carrier`, exactly zero carriers where the blocks begin; `own`, zero carriers before every "
    "stage. In brackets: how far the logits of present rows move; for `own`, the largest shift "
    "of any stage."
)
_EXACTNESS = (
    "Largest change over present rows: of the logits (relative) and of the predicted means (in "
    "standard deviations of the target)."
)
_CHANGES = (
    "`closed` without one change at a time: how far the logits of present rows move, and the "
    "largest entry of a NULL token's state, inducing states included."
)
_CONTINUITY = (
    "`closed` without one gate, when the NULL columns' cells are not zero but small (relative to "
    "the others' median norm): how far the logits move."
)
_LEAKS = "First place that leaks"
_KINDS = ("attention", "ffn", "norm", "injection", "statistic")
_NONE = "–"
Table: TypeAlias = tuple[Sequence[str], list[list[str]]]
"""Header and rows."""


class Section(NamedTuple):
    """A heading, what its figures are, and its tables, each with a name where there are several."""

    title: str
    text: str
    tables: dict[str, Table]


def page(
    host: str,
    tables: dict[str, pd.DataFrame],
    *,
    built_in: bool,
    command: str,
    tolerance: float,
    figure: str | None,
) -> str:
    """Everything that the audit found, and how to make it again."""
    parts = [
        f"# Where a NULL row or column acts in `{host}`",
        markdown.line(notice(host)) if built_in else "",
        f"Made by `{command}`. {_SCALE.format(tolerance=tolerance)}",
        _LIMITS,
    ]
    for section in sections(tables, tolerance):
        parts += [f"## {section.title}", section.text]
        for name, table in section.tables.items():
            parts += [f"### {name}"] * bool(name) + [markdown.table(*table)]
        if figure and section.title == _LEAKS:
            parts += [
                "## Stage by stage",
                f"![Shift of old states by stage and insertion]({figure})",
            ]
    return markdown.page(parts)


def sections(tables: dict[str, pd.DataFrame], tolerance: float) -> list[Section]:
    """The tables of the page, for whoever shows them."""
    found = [
        Section("What each site does to NULL tokens", _SITES, {"": _sites(tables["sites"])}),
        Section(_LEAKS, _WAYS, _leaks(tables["stages"], tolerance)),
    ]
    if not tables["exactness"].empty:
        found += [
            Section(
                "How inert a declared NULL is", _EXACTNESS, {"": _exactness(tables["exactness"])}
            ),
            Section(
                "What each change is for", _CHANGES, {"": _changes(tables["changes"], tolerance)}
            ),
            Section("Small but not zero", _CONTINUITY, {"": _continuity(tables["continuity"])}),
        ]
    return found


def _sites(frame: pd.DataFrame) -> Table:
    rows = []
    for variant, group in frame.groupby("variant", sort=False):
        cells = [str(variant)]
        for kind in _KINDS:
            verdicts = group.loc[group["kind"] == kind, "verdict"]
            cells.append(f"{(verdicts == 'absorbs').sum()} of {len(verdicts)}")
        rows.append(cells)
    return ("variant", *_KINDS), rows


def _leaks(frame: pd.DataFrame, tolerance: float) -> dict[str, Table]:
    """A table per way in."""
    parts: dict[str, Table] = {}
    for way, group in frame.groupby(frame["entry"].str.split().str[0], sort=False):
        chosen = group[group["entry"] != "raw missing"]
        variants = list(chosen["variant"].unique())
        rows = []
        for insertion, part in chosen.groupby("insertion", sort=False):
            cells = [_leak(part[part["variant"] == variant], tolerance) for variant in variants]
            rows.append([str(insertion), *cells])
        parts[str(way)] = ("insertion", *variants), rows
    return parts


def _leak(rows: pd.DataFrame, tolerance: float) -> str:
    ordered = rows.sort_values("order")
    leaking = ordered[leaks(ordered, tolerance)]
    if leaking.empty:
        return "nowhere"
    first = leaking.iloc[0]
    stages = str(first["label"])
    # Fed clean carriers at every stage, more than one of them may leak on its own.
    if first["entry"] == "own" and len(leaking) > 1:
        stages += f" and {len(leaking) - 1} more"
        return f"{stages} (≤ {_short(leaking['relative_shift'].max())})"
    return f"{stages} ({_short(ordered['relative_shift'].iloc[-1])})"


def _exactness(frame: pd.DataFrame) -> Table:
    dtypes = list(frame["dtype"].unique())
    header = ["insertion", *(f"{dtype}, {what}" for dtype in dtypes for what in ("logits", "mean"))]
    rows = []
    for insertion, part in frame.groupby("insertion", sort=False):
        by_dtype = part.set_index("dtype")
        cells = [
            _short(by_dtype.loc[dtype, figure])
            for dtype in dtypes
            for figure in ("logits", "prediction")
        ]
        rows.append([str(insertion), *cells])
    return header, rows


def _changes(frame: pd.DataFrame, tolerance: float) -> Table:
    axes = ("train", "test", "columns", "all")
    rows = []
    for change, part in frame.groupby("change", sort=False):
        shifts = part.groupby(part["insertion"].str.split(",").str[0])["relative_shift"].max()
        awake = part["null"].max()
        if change == "none":
            needed = _NONE
        elif shifts.max() > tolerance:
            needed = "exactness"
        else:
            needed = "NULL tokens at rest" if awake > tolerance else "continuity"
        figures = [_short(shifts[axis]) for axis in axes]
        rows.append([str(change), *figures, _short(awake), needed])
    return ("left out", *axes, "NULL state", "needed for"), rows


def _continuity(frame: pd.DataFrame) -> Table:
    pivot = frame.pivot_table(
        index="change", columns="carrier", values="relative_shift", sort=False
    )
    rows = [[str(change), *map(_short, values)] for change, values in pivot.iterrows()]
    return ("left out", *(f"carriers at {carrier:g}" for carrier in pivot.columns)), rows


def _short(value: Any) -> str:
    number = float(value)
    return "0" if number == 0 else f"{number:.1e}"
