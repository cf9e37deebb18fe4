"""What there is to say about a table without scoring anything on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.data.files import load_file
from experiments.data.registry import load_table, resolve
from experiments.data.settings import LoadSettings
from experiments.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from experiments.data.table import Table
    from experiments.sweep.config import SweepConfig


@dataclass(frozen=True)
class Fetched:
    """State of one OpenML task in the cache."""

    name: str
    state: str
    """``there``: it was complete. ``fetched``: it is now. ``failed``: see ``problem``."""
    rows: int = 0
    columns: int = 0
    checked: str = ""
    """What the file was compared with."""
    file: str = ""
    problem: str = ""


def load_only(config: SweepConfig) -> Table:
    """The one table of a configuration with one data set or file.

    Raises:
        DataError: it cannot be had.
    """
    if config.files:
        return load_file(config.files[0])
    return load_table(config.datasets[0], LoadSettings(config.openml))


def table_facts(table: Table) -> dict[str, Any]:
    """Size, target, licence, hash and notes as plain types."""
    return {
        "name": table.name,
        "source": table.source,
        "licence": table.licence,
        "target": table.target,
        "rows": len(table.y),
        "columns": table.X.shape[1],
        "categorical": len(table.categorical),
        "missing_cells": int(table.X.isna().sum().sum()),
        "dropped_rows": table.dropped_rows,
        "sha256": table.sha256,
        "notes": list(table.notes),
    }


def fetch(config: SweepConfig, progress: Callable[[str], None]) -> Iterator[Fetched]:
    """Bring every OpenML task of the configuration into the cache and check it.

    Raises:
        DataError: a name is unknown.
    """
    from experiments.data.openml.catalogue import task_id
    from experiments.data.openml.fetch import cached_task, load_task
    from experiments.data.openml.source import to_table

    settings = LoadSettings(config.openml, official_splits=config.splits == "official")
    found = [resolve(reference) for reference in config.datasets]
    for name in [name for source, name in found if source.prefix == "openml"]:
        progress(f"{name} ...")
        number = task_id(name)
        try:
            there = not cached_task(number, config.openml).missing(splits=settings.official_splits)
            task = load_task(number, settings)
            table = to_table(task, name)
        except DataError as error:
            yield Fetched(name, "failed", problem=str(error))
            continue
        yield Fetched(
            name,
            "there" if there else "fetched",
            rows=len(table.y),
            columns=table.X.shape[1],
            checked=", ".join(task.checked) or "nothing to check against",
            file=str(task.data_file),
        )
