"""The user's own CSV or parquet file as a table, or one sentence that says why not."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import numpy as np

from experiments.data.csv_file import read_csv
from experiments.data.infer import ColumnPlace, as_words, infer_column, word_notes
from experiments.data.normalise import normalise_feature
from experiments.data.opted import opted_columns
from experiments.data.parquet_file import read_parquet
from experiments.data.splits import BY_ROWS, SplitColumns
from experiments.data.table import Table, make_table
from experiments.errors import DataError
from experiments.io.text import readable_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from experiments.data.settings import FileSet

_PARQUET = b"PAR1"
_MADE_UP = re.compile(r"Unnamed: \d+(_level_\d+)?")


def load_file(entry: FileSet, columns: SplitColumns = BY_ROWS) -> Table:
    """Return the file as a ``Table``; what it is decides, not what it is called.

    Raises:
        DataError: there is no such file, it is damaged or of another kind, or it cannot be used for
            regression on ``entry.target``.
    """
    path = entry.path
    notes: list[str] = []
    parquet = _magic(path) == _PARQUET
    frame = read_parquet(entry, notes) if parquet else _read_text(entry, notes, columns)
    if parquet:
        _check_columns(entry, [str(name) for name in frame.columns])
    frame = _without_made_up_columns(frame, entry, notes)
    labels = () if columns.keep else columns.names
    written = [str(name) for name in frame.columns]
    frame, replaced = opted_columns(frame, entry, labels, notes)
    table = make_table(
        frame,
        name=entry.label,
        target=entry.target,
        licence="the user's own",
        source=f"file:{readable_name(path.name)}",
        drop=(*entry.drop, *replaced),
        words=entry.words,
        columns=columns,
    )
    notes += table.notes
    if entry.drop:
        notes.append(f"left out as asked: {', '.join(entry.drop)}")
    return dataclasses.replace(table, notes=(*notes, *_warnings(table, entry, written)))


def _magic(path: Path) -> bytes:
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a CSV or parquet file")
    try:
        with path.open("rb") as file:
            return file.read(len(_PARQUET))
    except FileNotFoundError:
        raise DataError(f"there is no file {path} ({path.absolute()})") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def _check_columns(entry: FileSet, names: Sequence[str]) -> None:
    kinds = {"to drop": entry.drop, "to take as words": entry.words, "of text": entry.text}
    for kind, asked in kinds.items():
        for name in asked:
            if name not in names:
                shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
                raise DataError(f"{entry.path}: no column '{name}' {kind}; there are {shown}")
    if entry.target in entry.drop:
        raise DataError(f"{entry.path}: '{entry.target}' is both the target and a column to drop")
    if entry.target in (*entry.words, *entry.text):
        raise DataError(f"{entry.path}: '{entry.target}' is the target, which cannot be words")
    if both := set(entry.text) & {*entry.words, *entry.drop}:
        raise DataError(
            f"{entry.path}: '{min(both)}' is a column of text, and one of words or to drop as well"
        )


def _read_text(
    entry: FileSet,
    notes: list[str],
    labels: SplitColumns = BY_ROWS,
) -> pd.DataFrame:
    import pandas as pd

    names, columns = read_csv(entry, notes)
    _check_columns(entry, names)
    read: dict[str, pd.Series] = {}
    for name, written in zip(names, columns, strict=True):
        if name in entry.drop and name not in labels.names:
            # Visible, unread, to the check that names columns.
            read[name] = pd.Series([None] * len(written), dtype=object)
        elif name in (*entry.words, *entry.text) or (name == labels.group and not labels.keep):
            read[name] = as_words(name, written)
        else:
            column = ColumnPlace(
                name,
                str(entry.path),
                entry.decimal,
                is_target=name == entry.target,
                dates=entry.dates == "parts" or name == labels.time,
            )
            inferred = infer_column(column, written)
            read[name] = inferred.values
            notes += inferred.notes
    frame: pd.DataFrame = pd.DataFrame(read)
    return frame


def _without_made_up_columns(frame: pd.DataFrame, entry: FileSet, notes: list[str]) -> pd.DataFrame:
    """Leave out row labels that pandas, reading a column without a name, has given one."""
    found = [
        name
        for name in frame.columns
        if _MADE_UP.fullmatch(str(name)) and name not in (*entry.drop, *entry.words, entry.target)
    ]
    labels = [name for name in found if _are_labels(frame[name].to_numpy())]
    if labels:
        notes.append(f"row labels without a name are left out: {', '.join(labels)}")
    kept: pd.DataFrame = frame.drop(columns=labels)
    return kept


def _are_labels(cells: np.ndarray) -> bool:
    """Whether every cell holds another whole number."""
    if cells.dtype.kind not in "iuf" or not np.isfinite(cells).all():
        return False
    return bool((cells % 1 == 0).all()) and len(np.unique(cells)) == len(cells)


def _warnings(table: Table, entry: FileSet, written: Sequence[str]) -> list[str]:
    """What a careful reader would ask about the table, whose file has the columns ``written``."""
    found = []
    rows, categorical = len(table.y), table.categorical
    for name in categorical:
        levels = table.X[name].cat.categories
        if name not in entry.words:
            found += word_notes(name, levels, entry.decimal)
        if rows > 2 and len(levels) == rows:
            found.append(
                f"column '{name}' holds another text in every row: if it is an identifier, drop it"
            )
    for name in table.X.columns.difference(categorical, sort=False):
        cells = table.X[name].to_numpy()
        if name in written and rows > 2 and _are_labels(cells) and np.ptp(cells) == rows - 1:
            found.append(
                f"column '{name}' counts the rows, in some order: if it is an identifier, drop it"
            )
    has_value = table.X.notna().any()
    if not has_value.all():
        found.append(f"no value at all in: {', '.join(table.X.columns[~has_value])}")
    repeated = int(table.X.duplicated().sum())
    if repeated:
        found.append(
            f"{repeated} of {rows} rows repeat the features of another: a split can separate them"
        )
    return found


def load_features(entry: FileSet, like: pd.DataFrame) -> pd.DataFrame:
    """Rows to predict: a file with the columns of ``like``, its target there or not.

    Raises:
        DataError: as ``load_file``; a column is missing, or of another kind than in ``like``.
    """
    import pandas as pd

    notes: list[str] = []
    parquet = _magic(entry.path) == _PARQUET
    reading = entry.model_copy(update={"drop": ()})
    frame = read_parquet(reading, notes) if parquet else _read_text(reading, notes)
    frame, _ = opted_columns(frame, reading, (), notes)
    missing = [name for name in like.columns if name not in frame.columns]
    if missing:
        raise DataError(f"{entry.path}: lacks the column(s) {', '.join(map(str, missing))}")
    read: dict[str, pd.Series] = {}
    for name in like.columns:
        wanted = isinstance(like[name].dtype, pd.CategoricalDtype)
        cells = frame[name].astype("category") if wanted else frame[name]
        read[name], _ = normalise_feature(cells, table=entry.label)
        if isinstance(read[name].dtype, pd.CategoricalDtype) != wanted:
            raise DataError(f"{entry.path}: column '{name}' holds words, and numbers in the table")
    features: pd.DataFrame = pd.DataFrame(read)
    return features
