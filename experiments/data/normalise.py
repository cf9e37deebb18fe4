"""One column in, one column out: float64, or an unordered category of strings.

Every source goes through here, so that the same table read through another file format, pandas
version or dtype backend gives the same values and the same hash.
"""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types as dtypes

from experiments.errors import DataError

_NUMBERS = (numbers.Real, Decimal)
_LARGEST = float(np.finfo(np.float32).max)
EXACT = 2.0**53
"""Up to here every whole number is a float64."""


def normalise_feature(column: pd.Series, *, table: str) -> tuple[pd.Series, str | None]:
    """Return the column as float64 or as a category of strings, and a note for the reader.

    Numbers and booleans become float64 (missing is NaN). Text and every declared category become
    an unordered category whose levels are the sorted distinct strings (missing stays missing).
    Object columns are judged by their values: booleans with gaps become 0/1/NaN, numbers become
    float64, and a mix of words and numbers becomes text, which the note says; so does a note where
    float64 makes one number of several.

    Raises:
        DataError: dates, complex numbers, numbers beyond float32, or values that are neither text
            nor number.
    """
    name = str(column.name)
    values = _dense(column)
    if isinstance(values.dtype, pd.CategoricalDtype):
        return _text_column(values.astype(object), name), None
    _refuse_dtype(values, name, table)
    if dtypes.is_bool_dtype(values.dtype) or dtypes.is_numeric_dtype(values.dtype):
        return _number_column(values, name, table)
    if not dtypes.is_object_dtype(values.dtype):
        return _text_column(values.astype(object), name), None

    kinds = _value_kinds(values, name, table)
    if "text" not in kinds:
        return _number_column(values, name, table)
    mixed = kinds != {"text"}
    note = f"column '{name}' mixes words and numbers: read as text" if mixed else None
    return _text_column(values, name), note


def normalise_words(column: pd.Series, *, table: str) -> tuple[pd.Series, str | None]:
    """Return the column as a category of strings, whatever its cells are, and no note.

    Raises:
        DataError: a cell holds several values.
    """
    name = str(column.name)
    values = _dense(column).astype(object)
    for row, value in enumerate(values):
        if not dtypes.is_scalar(value):
            raise DataError(
                f"table '{table}', column '{name}': row {row} holds {value!r}, which is not one "
                "word; drop the column"
            )
    return _text_column(values, name), None


def normalise_target(column: pd.Series, *, table: str) -> np.ndarray:
    """Return the target as float64, NaN where it is missing.

    Raises:
        DataError: text, dates, complex numbers, infinities, or numbers that float64 merges; names
            the first bad value.
    """
    name = str(column.name)
    values = _dense(column)
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(object)
    _refuse_dtype(values, name, table)
    if not (dtypes.is_bool_dtype(values.dtype) or dtypes.is_numeric_dtype(values.dtype)):
        values = values.astype(object)
        for row, value in enumerate(values):
            if not _is_missing(value) and not isinstance(value, (bool, np.bool_, *_NUMBERS)):
                raise DataError(
                    f"table '{table}', target column '{name}': row {row} holds {value!r}, which is "
                    "not a number; convert the column to numbers or choose another target"
                )
    plain = _as_float64(values, name, table)
    if merged := _merged(values, plain):
        raise DataError(f"table '{table}', target column '{name}': {merged}; subtract an offset")
    return plain


def _dense(column: pd.Series) -> pd.Series:
    """A column without sparse storage and with a plain index."""
    if isinstance(column.dtype, pd.SparseDtype):
        column = pd.Series(np.asarray(column), name=column.name)
    return column.reset_index(drop=True)


def _refuse_dtype(values: pd.Series, name: str, table: str) -> None:
    dtype = values.dtype
    is_time = (
        dtypes.is_datetime64_any_dtype(dtype)
        or dtypes.is_timedelta64_dtype(dtype)
        or isinstance(dtype, (pd.PeriodDtype, pd.IntervalDtype))
    )
    if is_time:
        raise DataError(
            f"table '{table}', column '{name}' holds {dtype} values; drop it or turn it into "
            "numbers (year, month, days since a date)"
        )
    if dtypes.is_complex_dtype(dtype):
        raise DataError(
            f"table '{table}', column '{name}' holds complex numbers; split it into real columns"
        )


def _as_float64(values: pd.Series, name: str, table: str) -> np.ndarray:
    """Float64 with one NaN bit pattern and no negative zero, so that equal columns hash equally."""
    if dtypes.is_object_dtype(values.dtype):
        array = np.array([_to_float(value) for value in values], dtype=np.float64)
    elif dtypes.is_extension_array_dtype(values.dtype):
        array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        array = values.to_numpy().astype(np.float64)
    plain: np.ndarray = array + 0.0
    plain[np.isnan(plain)] = np.nan
    infinite = np.flatnonzero(np.isinf(plain))
    if infinite.size:
        raise DataError(
            f"table '{table}', column '{name}' holds {infinite.size} infinite value(s), the first "
            f"in row {infinite[0]}; replace them by a number or leave the cells empty"
        )
    return plain


def _number_column(values: pd.Series, name: str, table: str) -> tuple[pd.Series, str | None]:
    plain = _within_float32(values, name, table)
    merged = _merged(values, plain)
    note = f"column '{name}': {merged}; if it is an identifier, drop it" if merged else None
    return pd.Series(plain, name=name), note


def _merged(values: pd.Series, plain: np.ndarray) -> str:
    """How many large numbers become how few in float64; empty if none is lost."""
    if dtypes.is_float_dtype(values.dtype):
        return ""
    large = np.abs(plain) > EXACT
    exact = len(set(values[large].tolist()))
    left = len(np.unique(plain[large]))
    return f"{exact} numbers beyond 2**53 become {left} in float64" if left < exact else ""


def _within_float32(values: pd.Series, name: str, table: str) -> np.ndarray:
    """A feature that hosts, which compute in float32, do not turn into an infinity."""
    plain = _as_float64(values, name, table)
    large = np.flatnonzero(np.abs(plain) > _LARGEST)
    if large.size:
        raise DataError(
            f"table '{table}', column '{name}': row {large[0]} holds {plain[large[0]]:.3g}, which "
            "float32 cannot; rescale the column"
        )
    return plain


def _is_missing(value: Any) -> bool:
    return dtypes.is_scalar(value) and bool(pd.isna(value))


def _to_float(value: Any) -> float:
    return math.nan if _is_missing(value) else float(value)


def _value_kinds(values: pd.Series, name: str, table: str) -> set[str]:
    kinds: set[str] = set()
    for row, value in enumerate(values):
        if isinstance(value, str):
            kinds.add("text")
        elif isinstance(value, (bool, np.bool_, *_NUMBERS)):
            if not _is_missing(value):
                kinds.add("number")
        elif not _is_missing(value):
            raise DataError(
                f"table '{table}', column '{name}': row {row} holds {value!r} of type "
                f"{type(value).__name__}; only text, numbers and empty cells can be used"
            )
    return kinds


def _text_column(values: pd.Series, name: str) -> pd.Series:
    texts = [None if _is_missing(value) else _text(value) for value in values]
    levels = sorted({text for text in texts if text is not None})
    # Object levels on every pandas version: its default text dtype changed with pandas 3.
    dtype = pd.CategoricalDtype(pd.Index(levels, dtype=object), ordered=False)
    column: pd.Series = pd.Series(pd.Categorical(texts, dtype=dtype), name=name)
    return column


def _text(value: Any) -> str:
    """One spelling per value: 1, 1.0 and numpy's 1 are all ``1``, whatever the file said."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, _NUMBERS):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)
