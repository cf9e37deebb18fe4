"""The calibration tables that options name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from retrofit import CalibrationTable


def read_tables(
    tables: Sequence[Path] | None,
    targets: Sequence[str] | None,
    fields: Mapping[str, Any],
) -> list[CalibrationTable] | None:
    """The tables that the options name; None, for the built-in ones, where they name none.

    ``fields`` says how all of them are read.

    Raises:
        ConfigError: the options are not complete.
        DataError: a file cannot be used.
    """
    from pydantic import ValidationError

    from experiments.cli.data_options import file_fields, require_file
    from experiments.cli.output import say
    from experiments.data.calibration_tables import calibration_tables
    from experiments.data.settings import FileSet
    from experiments.errors import ConfigError

    if not tables:
        require_file({**file_fields(target=list(targets or ())), **fields}, "--table")
        return None
    if not targets:
        raise ConfigError(f"--table {tables[0]}: name the column to predict with --target COLUMN")
    if len(targets) not in (1, len(tables)):
        raise ConfigError(
            f"{len(tables)} --table and {len(targets)} --target: give one target for all tables, "
            "or one for each in their order"
        )
    columns = list(targets) if len(targets) == len(tables) else list(targets) * len(tables)
    try:
        entries = [
            FileSet.model_validate({"path": path, "target": column, **fields})
            for path, column in zip(tables, columns, strict=True)
        ]
    except ValidationError as error:
        fault = error.errors()[0]
        field = fault["loc"][0]
        raise ConfigError(f"--{field} {fault['input']!r}: {fault['msg']}") from None
    return calibration_tables(entries, say)
