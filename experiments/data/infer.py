"""What the cells of a CSV column mean: numbers, truth values or words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
_COMMA_NUMBER = re.compile(r"[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
_WITH_COMMA = re.compile(r"[+-]?\d+,\d+")
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d{2}.*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}( .*)?"
)
_MISSING_NUMBERS = {"na", "n/a", "nan", "null", "none", "?", "-", "."}
"""Spellings of a missing number. In a column of words they are words: NA is Namibia."""
_TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Inferred:
    """A column as numbers or as text with None for missing, and what to know about it."""

    values: pd.Series
    notes: tuple[str, ...] = ()


def is_number(cell: str, decimal: str) -> bool:
    """Whether the whole cell is one number."""
    pattern = _NUMBER if decimal == "." else _COMMA_NUMBER
    return pattern.fullmatch(cell.strip()) is not None


def infer_column(
    name: str, cells: Sequence[str], *, where: str, decimal: str, is_target: bool
) -> Inferred:
    """Read a column of cells; an empty cell is missing in every kind of column.

    Raises:
        DataError: dates; numbers with a decimal comma that was not announced; a target that is not
            made of numbers.
    """
    texts = [cell.strip() for cell in cells]
    known = [text for text in texts if text]
    if not known:
        return Inferred(_numbers(name, [np.nan] * len(texts)))
    words = [text for text in known if not is_number(text, decimal)]
    spelled = [text for text in words if text.lower() not in _MISSING_NUMBERS]
    if not spelled and len(words) < len(known):
        return _as_numbers(name, texts, decimal, words)
    if {text.lower() for text in spelled} <= set(_TRUTH) and len(spelled) == len(known):
        return Inferred(_numbers(name, [_TRUTH.get(text.lower(), np.nan) for text in texts]))
    _refuse(name, known, spelled, where=where, decimal=decimal)
    if is_target:
        bad = next(index for index, text in enumerate(texts) if text in set(spelled or words))
        raise DataError(
            f"{where}: target column '{name}': row {bad} holds '{texts[bad]}', which is not a "
            "number; convert the column to numbers or choose another target"
        )
    values = pd.Series([cell if cell.strip() else None for cell in cells], name=name, dtype=object)
    return Inferred(values, tuple(_text_notes(name, known, words, spelled)))


def _as_numbers(name: str, texts: Sequence[str], decimal: str, words: Sequence[str]) -> Inferred:
    values = [
        float(text.replace(",", ".") if decimal == "," else text)
        if is_number(text, decimal)
        else np.nan
        for text in texts
    ]
    notes = []
    if words:
        spellings = ", ".join(sorted(set(words)))
        notes.append(f"column '{name}': {len(words)} cell(s) {spellings} read as missing")
    return Inferred(_numbers(name, values), tuple(notes))


def _refuse(
    name: str, known: Sequence[str], spelled: Sequence[str], *, where: str, decimal: str
) -> None:
    if len(spelled) == len(known) and all(_DATE.fullmatch(text) for text in known):
        raise DataError(
            f"{where}: column '{name}' holds dates such as '{known[0]}'; drop it or turn it into "
            "numbers (year, month, days since a date)"
        )
    if decimal == "." and spelled and all(_WITH_COMMA.fullmatch(text) for text in spelled):
        raise DataError(
            f"{where}: column '{name}' holds '{spelled[0]}': if that is a decimal comma, say so "
            "with decimal ','; if it separates thousands, remove it"
        )


def _text_notes(
    name: str, known: Sequence[str], words: Sequence[str], spelled: Sequence[str]
) -> list[str]:
    notes = []
    if len(words) < len(known):
        notes.append(f"column '{name}' mixes words and numbers: read as text")
    kept = sorted({text for text in words if text not in set(spelled)})
    if kept:
        notes.append(f"column '{name}': {', '.join(kept)} kept as a word, not as missing")
    return notes


def _numbers(name: str, values: Sequence[float]) -> pd.Series:
    return pd.Series(np.asarray(values, dtype=np.float64), name=name)
