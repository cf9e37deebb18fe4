"""What a column of cells means: numbers, truth values or words, or a sentence that says why not.

One policy, written down for readers in ``docs/bring-your-own.md``: a column of numbers holds
numbers and missing markers alone, and nothing is turned into words without a note.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.data import cells
from experiments.data.dates import parse_dates
from experiments.data.normalise import EXACT
from experiments.errors import DataError
from experiments.io.text import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TRUTH = {"true": 1.0, "false": 0.0}
_SHOWN = 40
"""Longest part of a cell that a message repeats."""
_SPELLINGS = 5


@dataclass(frozen=True)
class Inferred:
    """A column as numbers or as text with None for missing, and what to know about it."""

    values: pd.Series
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnPlace:
    """Where a column of cells stands, and how its numbers are written."""

    name: str
    where: str
    decimal: str
    is_target: bool
    dates: bool = False
    """Whether dates are read as such rather than refused."""


def infer_column(column: ColumnPlace, written: Sequence[str]) -> Inferred:
    """Read a column of cells; an empty cell is missing in every kind of column.

    Raises:
        DataError: dates; numbers written with other signs; a column of numbers, or a target, in
            which a word is not a number.
    """
    texts = [cell.strip() for cell in written]
    known = [text for text in texts if text]
    words = [text for text in known if not cells.is_number(text, column.decimal)]
    markers = [text for text in words if cells.is_missing(text)]
    if len(markers) == len(words):
        values = [_number(text, column.decimal) for text in texts]
        return Inferred(_series(values, column.name), _read_as_missing(column, markers))
    numbers, filled = len(known) - len(words), len(known) - len(markers)
    spelled = [text for text in words if not cells.is_missing(text)]
    if {text.lower() for text in spelled} <= set(_TRUTH) and not numbers:
        truth = [_TRUTH.get(text.lower(), np.nan) for text in texts]
        return Inferred(_series(truth, column.name), _read_as_missing(column, markers))
    if dates := _dates(spelled, filled):
        if not column.dates or column.is_target:
            way_out = "drop it or take its parts (--dates parts of eval and data show)"
            raise DataError(
                f"{column.where}: column '{column.name}' holds dates such as {_some(dates[:1])}; "
                f"{'choose another target' if column.is_target else way_out}"
            )
        return Inferred(parse_dates(texts, name=column.name, where=column.where))
    _refuse_words_among_numbers(column, texts, spelled, numbers, filled)
    return Inferred(as_words(column.name, written))


def as_words(name: str, written: Sequence[str]) -> pd.Series:
    """The cells as they stand, None where they are empty."""
    values = [cell if cell.strip() else None for cell in written]
    return pd.Series(values, name=name, dtype=object)


def word_notes(name: str, levels: Iterable[str], decimal: str) -> list[str]:
    """What to know of a column that is read as words, whatever file it came from."""
    texts = [level.strip() for level in levels]
    numbers = [text for text in texts if cells.is_number(text, decimal)]
    markers = [text for text in texts if cells.is_missing(text)]
    others = [text for text in texts if text not in {*numbers, *markers}]
    notes = []
    if numbers and others:
        notes.append(
            f"column '{name}' mixes words and numbers: read as text; words are {_some(others)}"
        )
    elif numbers:
        notes.append(f"column '{name}' holds numbers, and the file says that they are text")
    elif others and all(cells.is_amount(text) for text in others):
        notes.append(
            f"column '{name}' holds amounts such as {_some(others[:1])}: read as words, without "
            "their order; write plain numbers to keep it"
        )
    if markers:
        notes.append(f"column '{name}': {_some(markers)} kept as a word, not as missing")
    return notes


def _dates(spelled: Sequence[str], filled: int) -> list[str]:
    """The dates of a column that holds more of them than of anything else."""
    dates = [text for text in spelled if cells.is_date(text)]
    return dates if 2 * len(dates) > filled else []


def _refuse_words_among_numbers(
    column: ColumnPlace, texts: Sequence[str], spelled: Sequence[str], numbers: int, filled: int
) -> None:
    """A word may stand among numbers where it is one of many words, and nowhere else."""
    signs = {text: cells.disguise(text, column.decimal) for text in dict.fromkeys(spelled)}
    disguised = sum(1 for text in spelled if signs[text])
    if not column.is_target and 2 * (numbers + disguised) <= filled:
        return
    row, word = next((row, text) for row, text in enumerate(texts) if text in signs)
    held = f"column '{column.name}': row {row} holds {_some([word])}"
    if column.is_target:
        raise DataError(
            f"{column.where}: target {held}, which is not a number; convert the column to numbers "
            "or choose another target"
        )
    if signs[word] == cells.OTHER_MARK:
        raise DataError(
            f"{column.where}: column '{column.name}' holds {_some([word])}: if that is a decimal "
            f"{'comma' if column.decimal == '.' else 'point'}, say so with decimal "
            f"'{',' if column.decimal == '.' else '.'}'; if it separates thousands, remove it"
        )
    what = f"a number with {signs[word]}" if signs[word] else "which is not a number"
    raise DataError(
        f"{column.where}: {held}, {what}, and so do {len(spelled) - 1} other of {filled} cells; "
        "write plain numbers and leave missing cells empty, drop the column, or take it as words "
        "(--words COLUMN of eval and data show)"
    )


def _read_as_missing(column: ColumnPlace, markers: Sequence[str]) -> tuple[str, ...]:
    if not markers:
        return ()
    return (f"column '{column.name}': {len(markers)} cell(s) {_some(markers)} read as missing",)


def _some(texts: Sequence[str]) -> str:
    """The most frequent texts, each cut short, in quotes."""
    common = [text for text, _ in Counter(texts).most_common(_SPELLINGS)]
    more = ", ..." if len(set(texts)) > len(common) else ""
    return ", ".join(f"'{shortened(text, _SHOWN)}'" for text in common) + more


def _number(text: str, decimal: str) -> float | Decimal:
    """The number, exactly where float64 could not tell it from its neighbours."""
    if not cells.is_number(text, decimal):
        return np.nan
    plain = text.replace(",", ".") if decimal == "," else text
    value = float(plain)
    return value if abs(value) <= EXACT or np.isinf(value) else Decimal(plain)


def _series(values: Sequence[float | Decimal], name: str) -> pd.Series:
    exact = any(isinstance(value, Decimal) for value in values)
    array = np.array(values, object if exact else np.float64)
    column: pd.Series = pd.Series(array, name=name)
    return column
