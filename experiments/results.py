"""Reading a results folder back, and refusing what cannot be trusted.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from experiments import schema
from experiments.errors import ResultsError

if TYPE_CHECKING:
    from pathlib import Path

_INTEGERS = ("seed", "n_train", "n_test", "n_features")
_FLOATS = ("rmse", "mae", "r2", "nll", *schema.TIMING_COLUMNS)


def read_cases(path: Path) -> pd.DataFrame:
    """Read ``cases.csv`` or ``noise.csv``; text stays text, even a data set called ``NA``.

    Raises:
        ResultsError: missing file, other columns, a repeated row, or a scored row without a score.
    """
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except FileNotFoundError:
        raise ResultsError(
            f"{path} does not exist; run 'oretro eval --out {path.parent}'"
        ) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: not a table of cases: {error}") from None
    if tuple(frame.columns) != schema.COLUMNS:
        missing = [name for name in schema.COLUMNS if name not in frame.columns]
        detail = f"no column {', '.join(missing)}" if missing else "columns in another order"
        raise ResultsError(f"{path}: not a table of cases: {detail}")
    try:
        for name in _INTEGERS:
            frame[name] = frame[name].astype("int64")
        for name in _FLOATS:
            frame[name] = [float(cell) if cell else math.nan for cell in frame[name]]
    except ValueError as error:
        raise ResultsError(f"{path}: a number cannot be read: {error}") from None
    _refuse_untrustworthy(frame, path)
    return frame


def _refuse_untrustworthy(frame: pd.DataFrame, path: Path) -> None:
    keys = ["suite", "dataset", "seed", "variant"]
    repeated = frame[frame.duplicated(keys)]
    if len(repeated):
        raise ResultsError(f"{path}: {_label(repeated)} stands there more than once")
    unscored = frame[frame["status"].isin(["ok", "constant"]) & ~frame["rmse"].lt(float("inf"))]
    if len(unscored):
        raise ResultsError(f"{path}: {_label(unscored)} has status 'ok' but no RMSE")


def _label(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    return f"{first['dataset']}, seed {first['seed']}, {first['variant']}"
