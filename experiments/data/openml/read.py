"""An OpenML task from cached files to a frame and its splits, checked for completeness.

The official client parses, on a throwaway copy: it writes pickles beside what it reads, and it
deletes what it cannot read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.data.openml.cache import ARFF, QUALITIES, SPLITS, CachedTask, damaged
from experiments.data.openml.client import mask, reader
from experiments.data.splits import Split
from experiments.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class TaskData:
    """A task as the client parsed it, before normalisation."""

    task_id: int
    frame: pd.DataFrame
    """All columns, the target and those to be ignored among them."""
    target: str
    ignored: tuple[str, ...]
    """Row identifiers and columns that the server says must not be learnt from."""
    licence: str
    active: bool
    splits: tuple[Split, ...]
    """Official splits by repeat, then fold; empty where they were not asked for."""
    data_file: Path
    checked: tuple[str, ...]
    """What the rows were checked against."""


def read_task(cached: CachedTask, *, splits: bool) -> TaskData:
    """Read a task whose files are all there; the cache is not changed by a byte.

    Raises:
        DataError: a file is damaged or incomplete, the task is not a regression on one column, or
            its data are a sparse ARFF.
    """
    cached.require_regression()
    data_file = cached.data_file()
    assert data_file is not None
    description = cached.description()
    if description.sparse and data_file.name == ARFF:
        raise DataError(
            f"OpenML task {cached.task_id} ({description.name}) is a sparse ARFF, which the client "
            "reads as single-precision codes; export the table and give it as --data FILE"
        )
    cached.check_md5()
    with (
        TemporaryDirectory(prefix="oretro-openml-") as root,
        reader(Path(root), parquet=data_file.name != ARFF) as (openml, folder),
    ):
        copy = cached.copy_to(folder)
        try:
            task = openml.tasks.get_task(
                copy.task_id, download_splits=False, download_data=True, download_qualities=False
            )
            dataset = task.get_dataset(download_data=True)
        except Exception as error:  # whatever the client's parsers raise
            raise damaged(cached.task_folder, _first_line(error)) from None
        try:
            frame, _, _, _ = dataset.get_data(include_row_id=True, include_ignore_attribute=True)
        except Exception as error:  # likewise
            raise damaged(data_file, _first_line(error)) from None
        folds = _folds(task, cached, len(frame)) if splits else ()
    rows = cached.expected_rows()
    if rows is not None and rows != len(frame):
        raise damaged(data_file, f"it holds {len(frame)} of {rows} rows")
    checks = {
        "md5": bool(description.md5) and data_file.name == ARFF,
        f"{rows} rows": rows is not None,
        f"{len(folds)} splits": bool(folds),
    }
    return TaskData(
        task_id=cached.task_id,
        frame=frame,
        target=str(task.target_name),
        ignored=_ignored(dataset, list(frame.columns)),
        licence=description.licence,
        active=description.active,
        splits=folds,
        data_file=data_file,
        checked=tuple(name for name, done in checks.items() if done),
    )


def _ignored(dataset: Any, columns: list[str]) -> tuple[str, ...]:
    """The server's two lists as column names; some servers send one as ``a,b``."""
    names: list[str] = []
    for entry in (dataset.row_id_attribute, dataset.ignore_attribute):
        for name in [entry] if isinstance(entry, str) else (entry or []):
            names += [name] if name in columns else [part.strip() for part in name.split(",")]
    return tuple(dict.fromkeys(name for name in names if name in columns))


def _folds(task: Any, cached: CachedTask, n_rows: int) -> tuple[Split, ...]:
    path = cached.task_folder / SPLITS
    try:
        repeats, folds, samples = task.get_split_dimensions()
        pairs = [
            task.get_train_test_split_indices(repeat=repeat, fold=fold)
            for repeat in range(repeats)
            for fold in range(folds)
        ]
    except Exception as error:  # whatever the client's parsers raise
        raise damaged(path, _first_line(error)) from None
    if samples != 1:
        raise DataError(
            f"OpenML task {cached.task_id} has learning-curve samples, not plain splits"
        )
    found = []
    for number, (train, test) in enumerate(pairs):
        rows = np.concatenate([train, test])
        whole = len(np.unique(rows)) == len(rows) == n_rows and len(test) and rows.max() < n_rows
        if not whole or rows.min() < 0:
            raise damaged(
                path,
                f"split {number} names {len(np.unique(rows))} rows up to row {rows.max()}, the "
                f"data have {n_rows} (compare {cached.dataset_folder}; {QUALITIES} tells how many "
                "there should be)",
            )
        found.append(Split(np.sort(train).astype(np.int64), np.sort(test).astype(np.int64)))
    return tuple(found)


def _first_line(error: Exception) -> str:
    text = " ".join(mask(str(error)).split())
    return f"{type(error).__name__}: {text}"[:300]
