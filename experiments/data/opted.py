"""What is made of dates and free text where a user asks for it: columns of numbers.

Nothing is learnt from the table: a row becomes the same numbers whatever rows stand beside it.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pandas.api import types as dtypes

from experiments.data import cells
from experiments.data.dates import microseconds, parse_dates, plain_dates

if TYPE_CHECKING:
    from collections.abc import Collection

    from experiments.data.settings import FileSet

HASHED_COLUMNS = 32
"""Of a column of text; a word adds or takes one of them, by its hash."""
_DAY_US = 86_400e6


def opted_columns(
    frame: pd.DataFrame, entry: FileSet, labels: Collection[str], notes: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """The frame with the new columns behind its own, and the names of those that they stand for.

    ``labels`` are columns that are no features, beside the target; notes are added for the reader.

    Raises:
        DataError: a date cannot be read.
    """
    parts, replaced = [frame], []
    for place, name in enumerate(map(str, frame.columns)):
        column = frame.iloc[:, place]
        if name in (entry.target, *entry.drop, *entry.words, *labels):
            continue
        if name in entry.text:
            parts.append(_hashed(column, name))
            notes.append(f"column '{name}' is text: its words hashed to {HASHED_COLUMNS} columns")
        elif entry.dates == "parts" and (dates := _dates(column, entry)) is not None:
            parts.append(_parts(dates, name))
            said = ", ".join(str(made).removeprefix(f"{name} ") for made in parts[-1])
            notes.append(f"column '{name}' holds dates: taken as {said}")
        else:
            continue
        replaced.append(name)
    # Joined by position: names may repeat, which is refused later on.
    return pd.concat([part.reset_index(drop=True) for part in parts], axis="columns"), replaced


def _dates(column: pd.Series, entry: FileSet) -> pd.Series | None:
    """The column as datetimes where it holds more dates than anything else."""
    if dtypes.is_datetime64_any_dtype(column.dtype):
        return plain_dates(column)
    # A file of dates without times gives Python's own.
    texts = [cell.isoformat() if isinstance(cell, date) else cell for cell in column]
    texts = [cell if isinstance(cell, str) and cell.strip() else None for cell in texts]
    filled = [text for text in texts if text is not None and not cells.is_missing(text)]
    if 2 * sum(map(cells.is_date, filled)) <= len(filled):
        return None
    return parse_dates(texts, name=str(column.name), where=str(entry.path))


def _parts(dates: pd.Series, name: str) -> pd.DataFrame:
    when, days = dates.dt, microseconds(dates) / _DAY_US
    found = {
        "year": when.year,
        "month": when.month,
        "day": when.day,
        "weekday": when.day_of_week,
        "days since 1970-01-01": days,
    }
    columns = {f"{name} {part}": np.asarray(v, dtype=np.float64) for part, v in found.items()}
    made: pd.DataFrame = pd.DataFrame(columns)
    return made


def _hashed(column: pd.Series, name: str) -> pd.DataFrame:
    from sklearn.feature_extraction.text import HashingVectorizer

    missing = column.isna().to_numpy()
    texts = ["" if gone else str(cell) for gone, cell in zip(missing, column, strict=True)]
    counts_RC = HashingVectorizer(n_features=HASHED_COLUMNS).transform(texts).toarray()
    counts_RC[missing] = np.nan
    names = [f"{name} word {number}" for number in range(HASHED_COLUMNS)]
    made: pd.DataFrame = pd.DataFrame(counts_RC, columns=names)
    return made
