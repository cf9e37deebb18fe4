"""What a column of a table is, and the cells that markdown, LaTeX, HTML, terminal and CSV read.

Figures stay typed until here; nothing that shows a cell takes its text apart. Imports neither
torch nor tabpfn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NONE = "–"
Row = TypeVar("Row")


class Number(str):
    """The text of a cell that holds a figure; any other text is a name."""

    __slots__ = ()


class Cells(NamedTuple):
    """Cells as they are shown: the first column holds names, the others are aligned right."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column: its name, which CSV files use, its header elsewhere, and how a value is shown.

    The value is the row's attribute of that name unless given; of a row that is a dictionary its
    item, NaN without one.
    """

    name: str
    header: str
    form: Callable[[Any], str] = str
    value: Callable[[Row], Any] | None = None

    def of(self, row: Row) -> Any:
        """The typed value."""
        if self.value is not None:
            return self.value(row)
        return row.get(self.name, math.nan) if isinstance(row, dict) else getattr(row, self.name)

    def cell(self, row: Row) -> str:
        """What is shown: a name as it is, a figure in its form."""
        value = self.of(row)
        return value if isinstance(value, str) else Number(shown(value, self.form))


def shown(value: Any, form: Callable[[Any], str]) -> str:
    """A figure in its form, a dash for one that is not there, None or NaN."""
    return NONE if value is None or value != value else form(value)


def show(columns: Sequence[Column[Row]], rows: Iterable[Row]) -> Cells:
    """The table as it is shown."""
    cells = [tuple(column.cell(row) for column in columns) for row in rows]
    return Cells(tuple(column.header for column in columns), cells)


def percent(value: float, *, signed: bool = True) -> str:
    """A change in percent to the fourth digit, or two significant digits where it is smaller."""
    if value == 0:
        return "0 %"
    sign = "+" if signed else ""
    return f"{value:{sign}.4f} %" if abs(value) >= 1e-3 else f"{value:{sign}.1e} %"


def size(value: float) -> str:
    """A size in percent, which has no sign."""
    return percent(value, signed=False)


def interval(ends: tuple[float, float]) -> str:
    """Two changes in percent, a dash where there is no interval."""
    low, high = ends
    return NONE if math.isnan(low) else f"{percent(low)} to {percent(high)}"
