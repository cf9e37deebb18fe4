"""The one form in which every data set reaches an experiment."""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api import types as dtypes

from experiments.data.dates import microseconds, parse_dates
from experiments.data.normalise import normalise_feature, normalise_target, normalise_words
from experiments.data.splits import BY_ROWS, Split, SplitColumns
from experiments.errors import DataError
from experiments.io.text import message
from retrofit.patching.target_range import target_fault

if TYPE_CHECKING:
    from collections.abc import Sequence

_HASH_FORMAT = b"oretro-table-1"


@dataclass(frozen=True, eq=False)
class Table:
    """A normalised regression table of R rows and C feature columns."""

    name: str
    X: pd.DataFrame
    """(R, C): float64 columns, or unordered categories of strings; missing cells stay missing."""
    y: np.ndarray
    """(R,) float64, finite, read-only."""
    target: str
    licence: str
    source: str
    dropped_rows: int = 0
    """Rows left out because their target was missing."""
    notes: tuple[str, ...] = ()
    """What a reader of the results should know about this table, one sentence each."""
    splits: tuple[Split, ...] = ()
    """Splits that come with the table, by repeat, then fold, in row numbers of ``X``."""
    groups: np.ndarray | None = None
    """(R,) integers, one per group of rows that stay together; None where it was not asked for."""
    times: np.ndarray | None = None
    """(R,) float64 that order the rows in time; None where it was not asked for."""

    def __post_init__(self) -> None:
        # They repeat names and cells of the file, which can be anything, and are shown everywhere.
        object.__setattr__(self, "notes", tuple(message(note) for note in self.notes))

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the category columns, in column order."""
        kinds = zip(self.X.columns, self.X.dtypes, strict=True)
        return tuple(name for name, dtype in kinds if isinstance(dtype, pd.CategoricalDtype))

    @cached_property
    def sha256(self) -> str:
        """Hash of column names, kinds and values; the same for every file format and pandas."""
        digest = hashlib.sha256(_HASH_FORMAT)
        digest.update(np.array(self.X.shape, dtype="<i8").tobytes())
        for name in self.X.columns:
            _hash_text(digest, name)
            column = self.X[name]
            if isinstance(column.dtype, pd.CategoricalDtype):
                levels = list(column.cat.categories)
                digest.update(b"text" + len(levels).to_bytes(8, "little"))
                for level in levels:
                    _hash_text(digest, level)
                digest.update(column.cat.codes.to_numpy().astype("<i8").tobytes())
            else:
                digest.update(b"number" + column.to_numpy().astype("<f8").tobytes())
        _hash_text(digest, self.target)
        digest.update(self.y.astype("<f8").tobytes())
        return digest.hexdigest()


def _hash_text(digest: hashlib._Hash, text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    digest.update(len(raw).to_bytes(8, "little") + raw)


def make_table(
    frame: pd.DataFrame,
    *,
    name: str,
    target: str,
    licence: str,
    source: str,
    drop: Sequence[str] = (),
    words: Sequence[str] = (),
    splits: Sequence[Split] = (),
    columns: SplitColumns = BY_ROWS,
) -> Table:
    """Normalise a frame into a ``Table``; the frame itself is not changed.

    Columns named in ``words`` are read as text, whatever they hold. Rows whose target is missing
    are left out and counted, before any split is drawn, and ``splits``, which count all rows of
    ``frame``, are renumbered.

    Raises:
        DataError: the target or a column to drop is not there, two columns share a name, nothing
            is left to learn from, or a column cannot be used (see ``normalise_feature``).
    """
    present = [str(column) for column in frame.columns]
    _check_columns(present, name=name, wanted=[target, *drop, *columns.names])
    if target in columns.names:
        raise DataError(f"table '{name}': '{target}' is the target; rows are not split by it")
    frame = frame.set_axis(present, axis="columns")

    y = normalise_target(frame[target], table=name)
    known = ~np.isnan(y)
    if not known.any():
        raise DataError(f"table '{name}': no row has a value in the target column '{target}'")
    left_out = {target, *drop, *(() if columns.keep else columns.names)}
    features = [column for column in present if column not in left_out]
    if not features:
        raise DataError(f"table '{name}' has no feature column beside the target '{target}'")

    notes: list[str] = []
    normalised: dict[str, pd.Series] = {}
    for column in features:
        normalise = normalise_words if column in words else normalise_feature
        normalised[column], note = normalise(frame[column].loc[known], table=name)
        if note:
            notes.append(note)
    notes += [
        f"column '{column}' says how rows are split and is left out"
        for column in columns.names
        if not columns.keep
    ]
    dropped = int(len(y) - known.sum())
    if dropped:
        notes.append(f"{dropped} row(s) without a target value left out")
    y = y[known]
    if fault := target_fault(y, target):
        notes.append(fault)
    y.setflags(write=False)
    return Table(
        name=name,
        X=pd.DataFrame(normalised),
        y=y,
        target=target,
        licence=licence,
        source=source,
        dropped_rows=dropped,
        notes=tuple(notes),
        splits=tuple(_renumbered(split, known) for split in splits),
        groups=_groups(frame.loc[known], columns.group, name),
        times=_times(frame.loc[known], columns.time, name),
    )


def _groups(frame: pd.DataFrame, column: str | None, table: str) -> np.ndarray | None:
    if column is None:
        return None
    words, _ = normalise_words(frame[column], table=table)
    return _complete(words.cat.codes.to_numpy().astype(np.int64), words.isna(), column, table)


def _times(frame: pd.DataFrame, column: str | None, table: str) -> np.ndarray | None:
    if column is None:
        return None
    cells = frame[column].reset_index(drop=True)
    if dtypes.is_datetime64_any_dtype(cells.dtype):
        times = microseconds(cells)
    elif dtypes.is_numeric_dtype(cells.dtype):
        times = normalise_target(cells, table=table)
    else:
        texts = [None if pd.isna(cell) else str(cell) for cell in cells]
        times = microseconds(parse_dates(texts, name=column, where=f"table '{table}'"))
    return _complete(times, np.isnan(times), column, table)


def _complete(labels: np.ndarray, missing: Any, column: str, table: str) -> np.ndarray:
    rows = np.flatnonzero(missing)
    if rows.size:
        raise DataError(
            f"table '{table}': column '{column}', by which rows are split, has no value in "
            f"{rows.size} row(s), the first of them row {rows[0]}; fill them or leave them out"
        )
    labels.setflags(write=False)
    return labels


def _renumbered(split: Split, kept: np.ndarray) -> Split:
    """The split without the rows that are not ``kept``."""
    numbers = np.cumsum(kept) - 1
    train, test = (numbers[rows[kept[rows]]] for rows in (split.train, split.test))
    return Split(train, test)


def _check_columns(columns: list[str], *, name: str, wanted: Sequence[str]) -> None:
    repeated = sorted(column for column, count in Counter(columns).items() if count > 1)
    if repeated:
        raise DataError(f"table '{name}' has more than one column named {', '.join(repeated)}")
    for column in wanted:
        if column not in columns:
            near = difflib.get_close_matches(column, columns, n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise DataError(f"table '{name}' has no column '{column}'{hint}")
