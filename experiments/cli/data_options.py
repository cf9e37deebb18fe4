"""Options that say where tables come from, as fields of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def file_options(
    data: Path | None,
    target: str | None,
    drop: Sequence[str] | None = None,
    decimal: str | None = None,
) -> dict[str, Any]:
    """``files`` and ``suite`` for a file given on the command line; empty without one.

    Raises:
        ConfigError: the options are not complete.
    """
    from experiments.errors import ConfigError
    from experiments.io.text import readable_name

    if data is None:
        if target is not None or drop or decimal is not None:
            raise ConfigError("--target, --drop and --decimal belong to --data FILE")
        return {}
    if target is None:
        raise ConfigError(f"--data {data}: name the column to predict with --target COLUMN")
    entry: dict[str, Any] = {"path": data, "target": target, "drop": drop or []}
    if decimal is not None:
        entry["decimal"] = decimal
    return {"files": [entry], "suite": readable_name(data.stem or str(data))}


def openml_options(cache: Path | None, *, offline: bool | None) -> dict[str, Any] | None:
    """Fields of ``openml`` that were given; None if none was."""
    given = {"cache": cache, "offline": offline}
    return {name: value for name, value in given.items() if value is not None} or None
