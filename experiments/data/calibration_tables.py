"""Calibration tables from the user's own files, read as every other table is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.data import load_file
from experiments.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from experiments.data.settings import FileSet
    from retrofit import CalibrationTable


def calibration_tables(
    entries: Sequence[FileSet], remark: Callable[[str], None]
) -> list[CalibrationTable]:
    """One calibration table per file; ``remark`` hears what a reader should know of each.

    Raises:
        DataError: a file cannot be used for regression, or has a column that is not numeric: what
            calibration is given are numbers, and a column is left out only when that is asked for.
        CalibrationError: no host can be fitted on a table.
    """
    import retrofit
    from retrofit.patching.calibrate import record

    tables = []
    for entry in entries:
        table = load_file(entry)
        if table.categorical:
            names = ", ".join(f"'{name}'" for name in table.categorical)
            raise DataError(
                f"{entry.path}: calibration tables hold numbers alone, and these columns hold "
                f"text: {names}; turn them into numbers, or leave them out with --drop COLUMN"
            )
        for note in table.notes:
            remark(f"{entry.path}: {note}")
        given = retrofit.CalibrationTable(table.name, table.X.to_numpy(float), table.y)
        record(given)  # refused before a host is loaded
        tables.append(given)
    return tables
