"""Reading a CSV strictly: every line has the header's number of cells, or the reader says which.

The standard library's parser, not pandas': that one fills short lines, drops an unclosed quote's
rest, and turns a region called NA into a missing value without a word.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from experiments.data.cells import is_number
from experiments.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from experiments.data.settings import FileSet

_DELIMITERS = ",;\t|"
_OTHER_KINDS = {
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
    b"%PDF": "a PDF",
    b"BZh": "a bzip2 archive",
    b"\xfd7zX": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"\x80\x04\x95": "a pickle",
    b"SQLite": "a database",
}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WEB_PAGE = re.compile(r"\s*<(!doctype\s+html|html|\?xml)", re.IGNORECASE)
_CELL_LIMIT = 2**27
_INFLATED_LIMIT = 2**30
_UNPAIRED = re.compile("[\ud800-\udfff]")


def read_csv(entry: FileSet, notes: list[str]) -> tuple[list[str], list[list[str]]]:
    """Return the column names and the cells of each column, as written; add notes for the reader.

    Raises:
        DataError: the file is empty, of another kind or in another encoding, has no header or no
            row, or a line of it has too many or too few cells.
    """
    path = entry.path
    text = _decode(_read_bytes(path, notes), entry, notes)
    if not text.strip():
        raise DataError(f"{path} is empty")
    if _WEB_PAGE.match(text):
        raise DataError(f"{path} is a web page or XML, not a table (an error page of a download?)")
    with _long_cells():
        delimiter = entry.delimiter or _delimiter(text)
        names, rows = _parse(text, delimiter, path)
    names = _clean_names(names, rows, path, notes)
    columns = [list(cells) for cells in zip(*rows, strict=True)]
    return _without_row_numbers(names, columns, path, notes)


def _read_bytes(path: Path, notes: list[str]) -> bytes:
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.open(io.BytesIO(raw)) as file:
                raw = file.read(_INFLATED_LIMIT + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: a damaged gzip archive ({error})") from None
        if len(raw) > _INFLATED_LIMIT:
            raise DataError(f"{path}: inflates to more than {_INFLATED_LIMIT >> 20} MiB; unpack it")
        notes.append("the file is gzip-compressed")
    for start, kind in _OTHER_KINDS.items():
        if raw.startswith(start):
            raise DataError(f"{path} is {kind}, not a CSV or parquet file; export it as CSV")
    return raw


def _decode(raw: bytes, entry: FileSet, notes: list[str]) -> str:
    encoding = next((name for mark, name in _MARKS if raw.startswith(mark)), "")
    if encoding not in ("", "utf-8"):
        notes.append(f"read as {encoding.upper()}, as its first bytes say")
    encoding = encoding or entry.encoding
    try:
        text = raw.decode(encoding).lstrip("\ufeff")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{entry.path}: line {line} holds byte 0x{raw[error.start]:02x}, which is not "
            f"{encoding}; name the encoding, such as --encoding cp1252"
        ) from None
    except (LookupError, ValueError, AssertionError):  # not a codec of text, or not for a file
        raise DataError(f"{entry.path}: there is no encoding '{encoding}'") from None
    if unpaired := _UNPAIRED.search(text):
        line = text.count("\n", 0, unpaired.start()) + 1
        raise DataError(f"{entry.path}: line {line} is not {encoding}: half a character")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{entry.path}: line {line} holds NUL bytes; the file is damaged or binary")
    return text


def _delimiter(text: str) -> str:
    """The candidate that splits the header into most cells; a comma where none does."""
    counts = {mark: _header_cells(text, mark) for mark in _DELIMITERS}
    return max(_DELIMITERS, key=lambda mark: counts[mark])


def _header_cells(text: str, delimiter: str) -> int:
    """Cells of the first line that is not empty; 0 where this delimiter cannot be the right one."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return next((len(cells) for cells in reader if any(cells)), 0)
    except csv.Error:
        return 0


@contextmanager
def _long_cells() -> Iterator[None]:
    before = csv.field_size_limit(_CELL_LIMIT)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _parse(text: str, delimiter: str, path: Path) -> tuple[list[str], list[list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    names: list[str] = []
    start = 1
    try:
        for cells in reader:
            if not cells or (len(cells) == 1 and not cells[0].strip() and len(names) != 1):
                pass  # an empty line
            elif not names:
                names = cells
            elif len(cells) != len(names):
                hint = "; are there decimal commas?" if len(cells) == 2 * len(names) else ""
                raise DataError(
                    f"{path}: line {reader.line_num} has {len(cells)} cells, the header has "
                    f"{len(names)}{hint}"
                )
            else:
                rows.append(cells)
            start = reader.line_num + 1
    except csv.Error as error:
        what = f"{error}; is the delimiter another than '{delimiter}' (--delimiter)?"
        if "end of data" in str(error):
            what = "a quote that is opened there is never closed"
        raise DataError(f"{path}: line {start}: {what}") from None
    if not rows:
        raise DataError(f"{path} has a header and no row" if names else f"{path} is empty")
    return names, rows


def _clean_names(
    names: list[str], rows: list[list[str]], path: Path, notes: list[str]
) -> list[str]:
    if all(is_number(name, ".") or is_number(name, ",") for name in names):
        raise DataError(
            f"{path}: the first line holds numbers alone ({', '.join(names[:3])}), so there seems "
            "to be no header; add a line with the names of the columns"
        )
    stripped = [name.strip() for name in names]
    if stripped != names:
        notes.append("spaces around column names removed")
    repeated = [name for name, count in Counter(stripped).items() if name and count > 1]
    if repeated:
        raise DataError(f"{path}: more than one column is named {', '.join(repeated)}")
    for number, row in enumerate(rows, start=2):
        if row == names:
            raise DataError(f"{path}: row {number} repeats the header; were two files joined?")
    return stripped


def _without_row_numbers(
    names: list[str], columns: list[list[str]], path: Path, notes: list[str]
) -> tuple[list[str], list[list[str]]]:
    """Leave out the nameless first column that a data frame's index leaves in a CSV."""
    nameless = [index for index, name in enumerate(names) if not name]
    if nameless == [0] and len(names) > 1:
        first = columns[0][0].strip()
        counted = [str(number) for number in range(len(columns[0]))]
        if first == "1":
            counted = [str(number + 1) for number in range(len(columns[0]))]
        if [cell.strip() for cell in columns[0]] == counted:
            notes.append("the nameless first column counts the rows and is left out")
            return names[1:], columns[1:]
    if nameless:
        raise DataError(f"{path}: column {nameless[0] + 1} has no name in the header; give it one")
    return names, columns
