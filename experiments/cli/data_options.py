"""Where tables come from and how files are read: options as fields of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def file_fields(**options: str | list[str] | None) -> dict[str, Any]:
    """Fields of a file that were given as options of the same names."""
    return {name: value for name, value in options.items() if value not in (None, [])}


def require_file(fields: Mapping[str, Any], option: str) -> None:
    """Make sure that no option of a file was given without one.

    Raises:
        ConfigError: one was.
    """
    from experiments.errors import ConfigError

    if fields:
        given = ", ".join(f"--{name}" for name in fields)
        raise ConfigError(f"{given}: only with {option} FILE")


def file_options(data: Path | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """``files`` and ``suite`` for a file given on the command line; empty without one.

    Raises:
        ConfigError: the options are not complete.
    """
    from experiments.errors import ConfigError
    from experiments.sweep.config import suite_of_file

    if data is None:
        require_file(fields, "--data")
        return {}
    if "target" not in fields:
        raise ConfigError(f"--data {data}: name the column to predict with --target COLUMN")
    return {"files": [{"path": data, **fields}], "suite": suite_of_file(data)}


def openml_options(cache: Path | None, *, offline: bool) -> dict[str, Any] | None:
    """Fields of ``openml`` that were given; None if none was."""
    given = {"cache": cache, "offline": offline or None}
    return {name: value for name, value in given.items() if value is not None} or None
