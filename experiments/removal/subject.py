"""The table and the host that a removal is about, from what a command was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.data.files import load_features, load_file
from experiments.data.registry import load_table
from experiments.data.settings import FileSet
from experiments.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from experiments.data.table import Table
    from retrofit import Removable


@dataclass(frozen=True, eq=False)
class Subject:
    """A table of which some rows are left out to be explained or predicted."""

    table: Table
    fields: dict[str, Any]
    """Of a file of the user's."""
    kept: np.ndarray
    """Numbers of the rows that the removable table has."""
    left_out: np.ndarray
    """Numbers of the rows that were left out last."""

    @property
    def X(self) -> pd.DataFrame:
        """Features of the kept rows."""
        found: pd.DataFrame = self.table.X.iloc[self.kept].reset_index(drop=True)
        return found

    @property
    def y(self) -> np.ndarray:
        """Targets of the kept rows."""
        found: np.ndarray = self.table.y[self.kept]
        return found

    def without(self, rows: Sequence[int]) -> Subject:
        """The same with these rows left out of the table too.

        Raises:
            ConfigError: there is no such row, or none would be left.
        """
        count = len(self.table.y)
        wrong = [row for row in rows if not 0 <= row < count]
        if wrong:
            raise ConfigError(f"row {wrong[0]}: the table has rows 0 to {count - 1}")
        out = np.array(sorted(set(rows)), dtype=int)
        kept = np.setdiff1d(self.kept, out)
        if not len(kept):
            raise ConfigError("every row is left out; nothing is left to learn from")
        return Subject(self.table, self.fields, kept, out)

    def new_rows(self, path: Path) -> pd.DataFrame:
        """Features of another file, read like the table's own.

        Raises:
            DataError: it lacks a column, or one is of another kind.
        """
        entry = FileSet(**{**self.fields, "path": path, "target": self.table.target})
        return load_features(entry, self.table.X)

    def groups(self, column: str) -> np.ndarray:
        """Labels of the kept rows in one column.

        Raises:
            DataError: there is no such column.
        """
        if column not in self.table.X.columns:
            known = ", ".join(map(str, self.table.X.columns))
            raise DataError(
                f"table '{self.table.name}' has no column '{column}'; there are {known}"
            )
        labels: np.ndarray = self.table.X[column].astype(str).to_numpy()[self.kept]
        return labels


def load_subject(data: str, fields: dict[str, Any]) -> Subject:
    """A packaged set by name, or a file with its ``target``.

    Raises:
        ConfigError: a file without a target, or a name with one.
        DataError: the table cannot be used.
    """
    from pathlib import Path

    if "target" in fields:
        table = load_file(FileSet(path=Path(data), **fields))
    elif Path(data).is_file():
        raise ConfigError(f"{data}: name the column to predict with --target COLUMN")
    else:
        table = load_table(data)
    every = np.arange(len(table.y))
    return Subject(table, fields, every, every[:0])


def removable(subject: Subject, host: str, scope: str, **settings: Any) -> Removable:
    """The kept rows as a removable table of a host, which is patched to ``closed`` if it is stock.

    Raises:
        retrofit.errors.RetrofitError: the host cannot be patched, or not so used.
    """
    import retrofit

    loaded = retrofit.load_host(host)
    if not isinstance(loaded, retrofit.Patched):
        loaded = retrofit.patch(loaded, "closed")
    names = list(subject.table.X.columns)
    categorical = [names.index(name) for name in subject.table.categorical]
    found: Any = {"categorical_features_indices": categorical or None, **settings}
    return retrofit.Removable(loaded, subject.X, subject.y, scope, **found)  # type: ignore[arg-type]
