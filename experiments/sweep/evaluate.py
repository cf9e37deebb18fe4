"""A sweep from Python: what ``oretro eval`` does, and its rows as a data frame."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from experiments.data.settings import FileSet
from experiments.sweep.config import DEFAULT_CONFIG, load_config, suite_of_file

if TYPE_CHECKING:
    import pandas as pd

Data: TypeAlias = str | FileSet | Mapping[str, Any]
"""Name of a data set, or a file: ``{"path": "mine.csv", "target": "price"}``, with any other field
of ``files`` in a configuration."""


def evaluate(
    host: str | os.PathLike[str] | None = None,
    variants: Sequence[str] | None = None,
    *,
    data: Data | Sequence[Data] | None = None,
    seeds: Sequence[int] | None = None,
    config: str | Path = DEFAULT_CONFIG,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    jobs: int = 1,
    **options: Any,
) -> pd.DataFrame:
    """Compare stock and patched hosts as ``oretro eval`` does; one row per case and variant.

    What is None is as ``config`` says, and so is what ``options`` leave out: they are the fields
    of ``SweepConfig`` by name, such as ``n_estimators`` or ``limit``. The rows are those of
    ``cases.csv``. With ``out``, its folder keeps everything that the command leaves there, and a
    call that was stopped goes on where it was; otherwise nothing is kept. Rows that failed and
    data sets that cannot be had are warned of. ``jobs`` above 1 starts processes, which needs
    ``if __name__ == "__main__":`` in a script.

    Raises:
        ConfigError: an option is unknown or out of range.
        DataError: a data set is unknown, or none can be had.
        ResultsError: ``out`` cannot be written or belongs to another run.
        EngineError, InterruptedWriteError: as ``oretro eval``.
        retrofit.errors.RetrofitError: the host cannot be loaded or patched.
    """
    from experiments.sweep.engines.engine import Engine
    from experiments.sweep.run import run_sweep

    given = {"host": host and os.fspath(host), "variants": variants, "seeds": seeds}
    settings = load_config(config, {**given, **_data(data), **options})
    with TemporaryDirectory(prefix="oretro-") as nowhere:
        folder = Path(out or nowhere)
        outcome = run_sweep(settings, folder, fresh=fresh, engine=Engine(jobs))
        rows = read_results(folder)
    for name, reason in outcome.missing:
        warnings.warn(f"data set {name} is missing: {reason}", stacklevel=2)
    if outcome.failed:
        warnings.warn(f"{outcome.failed} rows failed; column 'error' says why", stacklevel=2)
    return rows


def read_results(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """The rows of a folder that ``oretro eval`` or ``evaluate`` wrote: those of ``cases.csv``.

    Raises:
        ResultsError: there are none, or they are damaged.
    """
    from experiments.sweep.folder.results import read_cases

    return read_cases(Path(folder) / "cases.csv")


def _data(data: Data | Sequence[Data] | None) -> dict[str, Any]:
    """``datasets``, ``files`` and ``suite`` of a configuration; empty if nothing is given."""
    if data is None:
        return {}
    entries: Sequence[Data] = [data] if isinstance(data, str | FileSet | Mapping) else data
    names = [entry for entry in entries if isinstance(entry, str)]
    files = [entry for entry in entries if not isinstance(entry, str)]
    fields: dict[str, Any] = {"datasets": names, "files": files}
    if len(entries) == len(files) == 1:
        path = files[0].path if isinstance(files[0], FileSet) else files[0].get("path")
        fields |= {"suite": suite_of_file(Path(path))} if path else {}
    return fields
