"""Reading a results folder back, and refusing what cannot be trusted.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING

import pandas as pd

from experiments.errors import ResultsError
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
            a scored row without a score, or a variant whose name means nothing.
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
            frame[name] = frame[name].astype("int64")
        for name in younger:
            frame[name] = ""
        for name in (*scores, *schema.TIMING_COLUMNS):
            frame[name] = [float(cell) if cell else math.nan for cell in frame[name]]
    except ValueError as error:
        raise ResultsError(f"{path}: a number cannot be read: {error}") from None
    _refuse_untrustworthy(frame, path)
    return frame


def _read_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a file that is whole: no line is cut off, overwritten or doubled."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ResultsError(
            f"{path} does not exist; run 'oretro eval --out {path.parent}'"
        ) from None
    # Counted in bytes, for a damaged file may not be text.
    before, nul, _ = content.partition(b"\0")
    if nul:
        raise _damaged(path, before.count(b"\n") + 1, "it holds NUL bytes, a lost end of file")
    if content and not content.endswith(b"\n"):
        raise _damaged(path, content.count(b"\n") + 1, "it is cut off")
    rows = []
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
    return header, rows


def _damaged(path: Path, line: int, detail: str) -> ResultsError:
    way_out = "restore the file"
    if path.with_suffix("").is_dir():
        way_out = "run the same 'oretro eval' again: the table is remade, nothing is recomputed"
    return ResultsError(f"{path}: line {line} is damaged: {detail}; {way_out}")


def _refuse_untrustworthy(frame: pd.DataFrame, path: Path) -> None:
    for name in frame["variant"].unique():
        try:
            if not is_noise(name):
                parse(name)
        except ValueError as error:
            raise ResultsError(f"{path}: variant {error}") from None
    keys = ["suite", "dataset", "seed", "variant"]
    repeated = frame[frame.duplicated(keys)]
    if len(repeated):
        raise ResultsError(f"{path}: {_label(repeated)} stands there more than once")
    for status in frame.loc[~frame["status"].isin(schema.STATUSES), "status"]:
        raise ResultsError(
            f"{path}: status '{status[:80]}' is none of {', '.join(schema.STATUSES)}"
        )
    scored = frame["status"].isin(schema.SCORED)
    unscored = frame[scored & ~frame["rmse"].lt(float("inf"))]
    if len(unscored):
        raise ResultsError(f"{path}: {_label(unscored)} has status 'ok' but no RMSE")


def _label(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    return f"{first['dataset']}, seed {first['seed']}, {first['variant']}"
