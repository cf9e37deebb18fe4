"""OpenML tasks as tables: the same one, cell for cell, from ARFF and from parquet."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pandas.api import types as dtypes

from experiments.data.openml.catalogue import task_id
from experiments.data.openml.fetch import load_task
from experiments.data.splits import BY_ROWS, SplitColumns
from experiments.data.table import Table, make_table
from experiments.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from experiments.data.openml.read import TaskData
    from experiments.data.settings import LoadSettings


def load_openml(label: str, settings: LoadSettings) -> Table:
    """Return the task called ``label`` (see ``catalogue.identify``) as a ``Table``.

    Raises:
        DataUnavailableError: it is not in the cache and may not or cannot be downloaded.
        DataError: a cached file is damaged, or the task cannot be used for regression.
    """
    return to_table(load_task(task_id(label), settings), label, settings.columns)


def to_table(
    data: TaskData,
    label: str,
    columns: SplitColumns = BY_ROWS,
) -> Table:
    """Normalise a parsed task.

    Columns are put in order of their names, for the files of one data set differ in theirs.

    Raises:
        DataError: the target is no column, is among the ignored ones, or is not numeric.
    """
    where = f"OpenML task {data.task_id}"
    names = [str(column) for column in data.frame.columns]
    if data.target not in names:
        raise DataError(
            f"{where}: its target '{data.target}' is not one of the columns {', '.join(names)}; "
            "export the table and give it as --data FILE --target COLUMN"
        )
    if data.target in data.ignored:
        raise DataError(
            f"{where}: its target '{data.target}' is also a column to be ignored; export the table "
            "and give it as --data FILE --target COLUMN"
        )
    # A column that must not be learnt from may well say how rows belong together.
    left_out = [name for name in data.ignored if name not in columns.names]
    kept = sorted(name for name in names if name not in left_out)
    frame = data.frame.set_axis(names, axis="columns")[kept]
    frame = frame.apply(_booleans_as_text)
    table = make_table(
        frame,
        name=label,
        target=data.target,
        licence=data.licence,
        source=f"openml:{data.task_id}",
        splits=data.splits,
        columns=columns,
    )
    notes = list(table.notes)
    if left_out:
        notes.append(f"left out as the server says: {', '.join(left_out)}")
    if not data.active:
        notes.append("the server no longer lists this data set as active")
    return dataclasses.replace(table, notes=tuple(notes))


def _booleans_as_text(column: pd.Series) -> pd.Series:
    """ARFF has no booleans: ``{true,false}`` is nominal, whatever a file format makes of it."""
    if dtypes.is_numeric_dtype(column.dtype) and not dtypes.is_bool_dtype(column.dtype):
        return column
    values = column.astype(object)
    spellings = {str(value).capitalize() for value in values.dropna().unique()}
    if not spellings or not spellings <= {"True", "False"}:
        return column
    return values.map(lambda value: str(value).capitalize(), na_action="ignore")
