"""Rows as CSV text that every reader takes, whatever a cell holds."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from experiments.io.text import encodable

if TYPE_CHECKING:
    from collections.abc import Iterable


def csv_text(rows: Iterable[Iterable[str]]) -> str:
    """The rows, header first, with cells quoted where a reader needs it and lines ended by LF.

    What UTF-8 cannot hold is written as an escape.
    """
    lines = []
    for row in rows:
        buffer = io.StringIO()
        # Python quotes the characters of the line ending alone, and readers stumble over a bare CR.
        csv.writer(buffer, lineterminator="\r\n").writerow(map(encodable, row))
        lines.append(buffer.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)
