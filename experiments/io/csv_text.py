"""Rows as CSV text that every reader takes, whatever a cell holds."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

from experiments.io.text import encodable

if TYPE_CHECKING:
    from collections.abc import Iterable


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """The rows, header first, with cells quoted where a reader needs it and lines ended by LF.

    Floats stand in their shortest exact form, NaN as an empty cell; what UTF-8 cannot hold is
    written as an escape.
    """
    lines = []
    for row in rows:
        buffer = io.StringIO()
        # Python quotes the characters of the line ending alone, and readers stumble over a bare CR.
        csv.writer(buffer, lineterminator="\r\n").writerow(map(_cell, row))
        lines.append(buffer.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(float(value))
    return encodable(str(value))
