"""The user's own CSV or parquet file as a table, or one sentence that says why not."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from experiments.data.csv_file import read_csv
from experiments.data.infer import infer_column
from experiments.data.table import Table, make_table
from experiments.errors import DataError
from experiments.io.text import readable_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from experiments.data.settings import FileSet

_PARQUET = b"PAR1"


def load_file(entry: FileSet) -> Table:
    """Return the file as a ``Table``; what it is decides, not what it is called.

    Raises:
        DataError: there is no such file, it is damaged or of another kind, or it cannot be used for
            regression on ``entry.target``.
    """
    path = entry.path
    notes: list[str] = []
    frame = _read_parquet(entry) if _magic(path) == _PARQUET else _read_text(entry, notes)
    table = make_table(
        frame,
        name=entry.label,
        target=entry.target,
        licence="the user's own",
        source=f"file:{readable_name(path.name)}",
        drop=entry.drop,
    )
    notes += table.notes
    if entry.drop:
        notes.append(f"left out as asked: {', '.join(entry.drop)}")
    return dataclasses.replace(table, notes=(*notes, *_warnings(table)))


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


def _check_drop(entry: FileSet, names: Sequence[str]) -> None:
    for name in entry.drop:
        if name not in names:
            shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
            raise DataError(f"{entry.path}: no column '{name}' to drop; there are {shown}")
    if entry.target in entry.drop:
        raise DataError(f"{entry.path}: '{entry.target}' is both the target and a column to drop")


def _read_parquet(entry: FileSet) -> pd.DataFrame:
    import pandas as pd

    path = entry.path
    try:
        frame = pd.read_parquet(path)
    except Exception as error:  # pyarrow's own errors, which share no base class
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path}: not a whole parquet file: {line}") from None
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    _check_drop(entry, [str(name) for name in frame.columns])
    return frame


def _read_text(entry: FileSet, notes: list[str]) -> pd.DataFrame:
    import pandas as pd

    names, columns = read_csv(entry, notes)
    _check_drop(entry, names)
    used = {
        name: infer_column(
            name,
            cells,
            where=str(entry.path),
            decimal=entry.decimal,
            is_target=name == entry.target,
        )
        for name, cells in zip(names, columns, strict=True)
        if name not in entry.drop
    }
    for inferred in used.values():
        notes += inferred.notes
    kept = {name: inferred.values for name, inferred in used.items()}
    # Dropped columns stay visible to the check that names them, unread.
    dropped = {name: [None] * len(columns[0]) for name in names if name in entry.drop}
    frame: pd.DataFrame = pd.DataFrame({**kept, **dropped})
    return frame


def _warnings(table: Table) -> list[str]:
    """What a careful reader would ask about the table."""
    found = []
    rows = len(table.y)
    for name in table.categorical:
        if rows > 2 and len(table.X[name].cat.categories) == rows:
            found.append(
                f"column '{name}' holds another text in every row: if it is an identifier, drop it"
            )
    empty = [name for name in table.X.columns if table.X[name].isna().all()]
    if empty:
        found.append(f"no value at all in: {', '.join(empty)}")
    repeated = int(table.X.duplicated().sum())
    if repeated:
        found.append(
            f"{repeated} of {rows} rows repeat the features of another: a split can separate them"
        )
    return found
