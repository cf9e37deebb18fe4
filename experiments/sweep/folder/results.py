"""Reading a results folder back, and refusing what cannot be trusted.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.errors import ResultsError
from experiments.io.text import shortened, visible
from experiments.sweep import metrics, schema
from experiments.sweep.variant_name import is_noise, parse

if TYPE_CHECKING:
    from pathlib import Path

_INTEGERS = ("seed", "n_train", "n_test", "n_features")


def read_cases(path: Path) -> pd.DataFrame:
    """Read ``cases.csv`` or ``noise.csv``; text stays text, even a data set called ``NA``.

    A score that is younger than the table is NaN.

    Raises:
        ResultsError: missing file, a damaged line (with its number), other columns, a repeated row,
            a row that ``schema.fault`` objects to, or a variant whose name means nothing.
    """
    header, rows = _read_rows(path)
    names = schema.columns()
    scores = [score.name for score in metrics.SCORES if score.name in names]
    younger = [name for name in scores if name not in (*header, *metrics.FIRST)]
    if header != [name for name in names if name not in younger]:
        missing = [name for name in names if name not in (*header, *younger)]
        detail = f"no column {', '.join(missing)}" if missing else "columns in another order"
        raise ResultsError(f"{path}: not a table of cases: {detail}")
    frame: pd.DataFrame = pd.DataFrame(rows, columns=header, dtype=str)
    try:
        for name in _INTEGERS:
            frame[name] = pd.array([int(cell) for cell in frame[name]], dtype="int64")
        for name in younger:
            frame[name] = ""
        for name in (*scores, *schema.TIMING_COLUMNS):
            frame[name] = [float(cell) if cell else math.nan for cell in frame[name]]
    except (ValueError, OverflowError) as error:
        reason = shortened(visible(error), 200)
        raise ResultsError(f"{path}: a number cannot be read: {reason}") from None
    _refuse_untrustworthy(frame, path, scores)
    return frame


def _read_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a file that is whole: no line is cut off, overwritten or doubled."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ResultsError(
            f"{path} does not exist; run 'oretro eval --out {path.parent}'"
        ) from None
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror})") from None
    # Counted in bytes, for a damaged file may not be text.
    before, nul, _ = content.partition(b"\0")
    if nul:
        raise _damaged(path, before.count(b"\n") + 1, "it holds NUL bytes, a lost end of file")
    if content and not content.endswith(b"\n"):
        raise _damaged(path, content.count(b"\n") + 1, "it is cut off")
    rows = []
    limit = csv.field_size_limit(len(content) + 1)
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8", "surrogatepass")), strict=True)
        header = next(reader, [])
        for row in reader:
            if row == header:
                raise _damaged(path, reader.line_num, "it is a second header")
            if len(row) != len(header):
                detail = f"it has {len(row)} cells, the header has {len(header)}"
                raise _damaged(path, reader.line_num, detail)
            rows.append(row)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: not a table of cases: {error}") from None
    finally:
        csv.field_size_limit(limit)
    return header, rows


def _damaged(path: Path, line: int, detail: str) -> ResultsError:
    way_out = "restore the file"
    if path.with_suffix("").is_dir():
        way_out = "run the same 'oretro eval' again: the table is remade, nothing is recomputed"
    return ResultsError(f"{path}: line {line} is damaged: {detail}; {way_out}")


def _refuse_untrustworthy(frame: pd.DataFrame, path: Path, scores: list[str]) -> None:
    for name in frame["variant"].unique():
        try:
            if not is_noise(name):
                parse(name)
        except ValueError as error:
            raise ResultsError(f"{path}: variant {shortened(visible(error), 200)}") from None
    repeated = frame[frame.duplicated(list(schema.KEYS))]
    if len(repeated):
        raise ResultsError(f"{path}: {_label(repeated.iloc[0])} stands there more than once")
    for record in frame.to_dict("records"):
        plain: dict[str, Any] = {str(name): value for name, value in record.items()}
        found = {name: plain.pop(name) for name in scores}
        if reason := schema.fault(schema.CaseRow(**plain, scores=found)):
            raise ResultsError(f"{path}: {_label(record)}: {reason}")


def _label(row: Any) -> str:
    name = f"{row['dataset']}, seed {row['seed']}, {row['variant']}"
    return shortened(visible(name), 200)
