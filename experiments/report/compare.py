"""Two results folders side by side: the cases that both have, and what differs between the runs.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.errors import ResultsError
from experiments.io.csv_text import csv_text
from experiments.io.text import shortened
from experiments.report import markdown
from experiments.report.columns import NONE, Column, percent, show, size
from experiments.report.remarks import notice
from experiments.sweep import run_record
from experiments.sweep.folder.results import read_cases
from experiments.sweep.schema import variant_rank

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pandas as pd

    from experiments.report.columns import Cells
    from experiments.report.remarks import Sentence

CASE = ("dataset", "seed", "variant")
_COMPARED = ("config", "host", "code", "versions", "machine", "device", "dtype", "tables")
_VALUE_LENGTH = 22
_RMSE = "{:.6g}".format
CASES: tuple[Column[Any], ...] = (
    Column("dataset", "data set"),
    Column("seed", "seed"),
    Column("variant", "variant"),
    Column("rmse_a", "RMSE A", _RMSE),
    Column("rmse_b", "RMSE B", _RMSE),
    Column("change_pct", "B against A", percent),
)
MEANS: tuple[Column[Any], ...] = (
    Column("variant", "variant"),
    Column("cases", "cases"),
    Column("mean_pct", "mean change", percent),
    Column("largest_pct", "largest", size),
)


@dataclass(frozen=True)
class Difference:
    """One thing that the two runs do not have in common."""

    what: str
    """Such as ``config.n_estimators`` or ``versions.torch``."""
    a: str
    b: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """What there is to say about two folders."""

    cases: list[dict[str, Any]]
    """By the names of ``CASES``; B against A in percent of A's RMSE."""
    differences: tuple[Difference, ...]
    other_cases: int
    """Cases that one folder alone has, or that are not scored in both."""
    notice: Sentence
    """Whose host this is; empty unless one is built in."""

    @property
    def means(self) -> list[dict[str, Any]]:
        """By the names of ``MEANS``, variant by variant."""
        found = []
        for name in sorted({row["variant"] for row in self.cases}, key=variant_rank):
            own = [row["change_pct"] for row in self.cases if row["variant"] == name]
            known = [change for change in own if not math.isnan(change)]
            mean = sum(known) / len(known) if known else math.nan
            largest = max(map(abs, known), default=math.nan)
            found.append(
                {"variant": name, "cases": len(own), "mean_pct": mean, "largest_pct": largest}
            )
        return found

    def difference_cells(self, length: int = 200) -> Cells:
        """The differences as a table with values of so many characters at most."""

        def cut(value: str) -> str:
            return shortened(value, length)

        columns: tuple[Column[Difference], ...] = (
            Column("what", "differs"),
            Column("a", "A", value=lambda item: cut(item.a)),
            Column("b", "B", value=lambda item: cut(item.b)),
        )
        return show(columns, self.differences)

    def terminal_differences(self) -> Cells:
        """As ``difference_cells``, for a terminal of 80 columns."""
        return self.difference_cells(_VALUE_LENGTH)


def compare(a: Path, b: Path) -> Comparison:
    """Pair the rows of two folders by data set, seed and variant.

    Raises:
        ResultsError: a folder's results cannot be trusted, or no row that is scored in both has
            the same data set, seed and variant.
    """
    (cases_a, run_a), (cases_b, run_b) = _read(a), _read(b)
    scored = [cases[cases["status"] == "ok"] for cases in (cases_a, cases_b)]
    pairs = scored[0].merge(scored[1], on=list(CASE), suffixes=("_a", "_b"))
    if pairs.empty:
        names = [", ".join(sorted(cases["dataset"].unique())[:5]) for cases in (cases_a, cases_b)]
        raise ResultsError(
            f"{a} and {b} have no scored case in common: the one has {names[0] or 'none'}, the "
            f"other {names[1] or 'none'}; compare runs on the same data sets, seeds and variants"
        )
    rows = [_case(row) for row in pairs.to_dict("records")]
    rows.sort(key=lambda row: (row["dataset"], row["seed"], variant_rank(row["variant"])))
    either = set(_keys(cases_a)) | set(_keys(cases_b))
    host = next((run["host"] for run in (run_a, run_b) if _built_in(run)), None)
    return Comparison(
        rows,
        tuple(_differences(run_a, run_b, pairs)),
        len(either) - len(rows),
        notice(host["name"]) if host else (),
    )


def comparison_csv(found: Comparison) -> str:
    """The cases as CSV, with every digit."""
    names = [column.name for column in CASES]
    return csv_text((names, *([row[name] for name in names] for row in found.cases)))


def comparison_page(found: Comparison, a: str, b: str) -> str:
    """Both tables, and what differs, as markdown."""
    differences = found.difference_cells()
    return markdown.page(
        [
            f"# `{a}` (A) and `{b}` (B)",
            markdown.table(*show(MEANS, found.means)),
            markdown.section(
                "What differs", markdown.table(*differences) if differences.rows else "Nothing."
            ),
            markdown.section("Cases", markdown.table(*show(CASES, found.cases))),
            markdown.line(found.notice),
        ]
    )


def _read(folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    run = run_record.read(folder)
    cases = read_cases(folder / "cases.csv")
    run_record.check_tables(folder, run)
    return cases, run


def _keys(cases: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    yield from cases[list(CASE)].itertuples(index=False, name=None)


def _built_in(run: Mapping[str, Any]) -> bool:
    return bool(run.get("host", {}).get("built_in"))


def _case(row: Mapping[Any, Any]) -> dict[str, Any]:
    a, b = float(row["rmse_a"]), float(row["rmse_b"])
    change = 100.0 * (b / a - 1.0) if a > 0 else math.nan
    return {**{name: row[name] for name in CASE}, "rmse_a": a, "rmse_b": b, "change_pct": change}


def _differences(
    run_a: Mapping[str, Any], run_b: Mapping[str, Any], pairs: pd.DataFrame
) -> Iterator[Difference]:
    """Fields of the run records, and what the cases say of hosts, data and sizes."""
    flat = [dict(_flat("", {name: run.get(name) for name in _COMPARED})) for run in (run_a, run_b)]
    for what in dict.fromkeys((*flat[0], *flat[1])):
        values = [fields.get(what) for fields in flat]
        # An older run lacks options that are off in a younger one.
        if values[0] != values[1] and any(value not in (None, False, "", []) for value in values):
            yield Difference(what, *map(_text, values))
    for what in ("host_sha256", "data_sha256", "n_train", "n_test"):
        changed = pairs[pairs[f"{what}_a"] != pairs[f"{what}_b"]]
        for case, own in changed.groupby("dataset", sort=True):
            first = own.iloc[0]
            yield Difference(
                f"{what} of {case}", _text(first[f"{what}_a"]), _text(first[f"{what}_b"])
            )


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _flat(f"{prefix}.{name}" if prefix else str(name), item)
    else:
        yield prefix, value


def _text(value: Any) -> str:
    if value is None:
        return NONE
    return value if isinstance(value, str) else json.dumps(value, default=str)
