"""Columns of dates: read without guessing which number is the day, and taken apart into numbers."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.data import cells
from experiments.errors import DataError
from experiments.io.text import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 40


def parse_dates(written: Sequence[str | None], *, name: str, where: str) -> pd.Series:
    """The cells as datetimes in UTC, NaT where they are empty or say that there is none.

    Raises:
        DataError: a cell is no date, or day and month cannot be told apart in any of them.
    """
    known = [None if cell is None else cell.strip() for cell in written]
    texts = pd.Series([None if not t or cells.is_missing(t) else t for t in known], dtype=object)
    for row, text in enumerate(texts):
        if text is not None and (cells.is_clock(text) or not cells.is_date(text)):
            raise DataError(
                f"{where}: column '{name}': row {row} holds '{shortened(text, _SHOWN)}', which is "
                "no date; leave it empty or correct it"
            )
    readings = [_read(texts, format="ISO8601")]
    if readings[0] is None:
        readings = [_read(texts, dayfirst=first) for first in (False, True)]
    found = [reading for reading in readings if reading is not None]
    example = shortened(str(texts.dropna().iloc[0]), _SHOWN) if texts.notna().any() else ""
    if not found:
        raise DataError(
            f"{where}: column '{name}' holds dates such as '{example}' that are not all written "
            "alike; write them as YYYY-MM-DD"
        )
    if not all(reading.equals(found[0]) for reading in found):
        raise DataError(
            f"{where}: column '{name}' holds dates such as '{example}', in which day and month "
            "cannot be told apart; write them as YYYY-MM-DD"
        )
    column: pd.Series = found[0].rename(name)
    return column


def _read(texts: pd.Series, **how: object) -> pd.Series | None:
    try:
        with warnings.catch_warnings():
            # Which order is meant is decided here, by trying both.
            warnings.simplefilter("ignore", UserWarning)
            read = pd.to_datetime(texts, utc=True, **how)  # type: ignore[call-overload]
    except (ValueError, OverflowError):
        return None
    return plain_dates(read)


def plain_dates(column: pd.Series) -> pd.Series:
    """Datetimes of any zone and unit as microseconds in UTC without a zone."""
    if column.dt.tz is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    plain: pd.Series = column.astype("datetime64[us]")
    return plain


def microseconds(column: pd.Series) -> np.ndarray:
    """Microseconds since 1970-01-01 as float64, NaN where there is no date."""
    plain = plain_dates(column)
    return np.where(plain.isna(), np.nan, plain.astype("int64").to_numpy().astype(np.float64))
