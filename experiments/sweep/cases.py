"""The grid of a sweep: which cases there are, on which rows, and which cannot be scored at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.data import load_file, load_table, resolve
from experiments.data.settings import LoadSettings
from experiments.data.splits import (
    Split,
    cut_times,
    draw_fold,
    draw_groups,
    draw_split,
    draw_subset,
)
from experiments.errors import DataError
from experiments.io.text import encodable
from retrofit.patching.target_range import target_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.data import Table
    from experiments.sweep.config import SweepConfig

MIN_TRAIN_ROWS = 2


@dataclass(frozen=True, order=True)
class Case:
    """One data set under one seed: one split, one fitted preprocessing, shared by all variants."""

    dataset: str
    seed: int
    """Of ``SweepConfig.case_numbers``: under folds it says which of them, too."""


@dataclass(frozen=True, eq=False)
class PlannedCase:
    """A case with its table and split, before any model is loaded."""

    case: Case
    table: Table
    split: Split
    skip: str = ""
    """Why the case cannot be scored; empty if it can."""
    fault: str = ""
    """Why no host can be fitted on it, which fails its rows; empty if one can."""
    remark: str = ""
    """What a reader of its rows should know."""


def enumerate_cases(config: SweepConfig) -> tuple[Case, ...]:
    """The one enumerator: data sets in the order of the configuration, seeds within each.

    Raises:
        DataError: a data set that no source has, or two names for the same one.
    """
    cases = tuple(Case(name, seed) for name in _loaders(config) for seed in config.case_numbers)
    return cases[: config.limit]


def plan_cases(
    config: SweepConfig, missing: dict[str, str] | None = None
) -> tuple[PlannedCase, ...]:
    """Load every table once and draw every split.

    A table that cannot be had is an error; with ``missing``, it is put there with the reason, as
    long as another table can be had.

    Raises:
        DataError: a table is unknown, unavailable or unusable.
    """
    cases = enumerate_cases(config)
    wanted = {case.dataset for case in cases}
    tables: dict[str, Table] = {}
    faults: dict[str, DataError] = {}
    for name, load in _loaders(config).items():
        if name in wanted:
            try:
                tables[name] = load()
            except DataError as error:
                if missing is None:
                    raise
                faults[name] = error
    if faults and not tables:
        raise next(iter(faults.values()))
    if missing is not None:
        missing.update({name: str(error) for name, error in faults.items()})
    return tuple(
        _plan(case, tables[case.dataset], config) for case in cases if case.dataset in tables
    )


def _loaders(config: SweepConfig) -> dict[str, Callable[[], Table]]:
    """How to load each data set, by name: those of the sources, then the user's files."""
    columns = config.split_columns
    official = config.splits == "official"
    settings = LoadSettings(config.openml, official_splits=official, columns=columns)
    loaders: dict[str, Callable[[], Table]] = {}

    def add(name: str, load: Callable[[], Table]) -> None:
        # As tables hold them, where an escape stands for what a table cannot hold.
        if encodable(name) in map(encodable, loaders):
            raise DataError(f"two data sets are called '{name}'; name one of them otherwise")
        loaders[name] = load

    for reference in config.datasets:
        _, name = resolve(reference)
        add(name, lambda reference=reference: load_table(reference, settings))  # type: ignore[misc]
    for entry in config.files:
        add(entry.label, lambda entry=entry: load_file(entry, columns))  # type: ignore[misc]
    return loaders


def _plan(case: Case, table: Table, config: SweepConfig) -> PlannedCase:
    split = _split(case, table, config)
    y_train = table.y[split.train]
    skip = ""
    if len(split.train) < MIN_TRAIN_ROWS or len(split.test) < 1:
        skip = (
            f"{len(table.y)} rows leave {len(split.train)} to train on and {len(split.test)} to "
            f"test; at least {MIN_TRAIN_ROWS} and 1 are needed"
        )
    fault = "" if skip else target_fault(y_train, table.target)
    remark = ""
    if not skip and np.ptp(y_train) == 0:
        remark = "every training target is equal: the network does not run, the patch is untested"
    return PlannedCase(case, table, split, skip, fault, remark)


def _split(case: Case, table: Table, config: SweepConfig) -> Split:
    how = (config.test_fraction, config.folds)
    if table.groups is not None:
        split = draw_groups(case.dataset, case.seed, table.groups, *how)
    elif table.times is not None:
        split = cut_times(case.dataset, case.seed, table.times, *how)
    elif config.folds is not None:
        split = draw_fold(case.dataset, case.seed, len(table.y), config.folds)
    elif config.splits == "ours":
        split = draw_split(case.dataset, case.seed, len(table.y), config.test_fraction)
    elif not table.splits:
        raise DataError(f"'{table.name}' comes without official splits; set splits: ours")
    elif case.seed >= len(table.splits):
        raise DataError(
            f"'{table.name}' has official splits 0 to {len(table.splits) - 1}; "
            f"seed {case.seed} names none"
        )
    else:
        split = table.splits[case.seed]
    if config.max_train_rows is not None:
        split = draw_subset(split, case.dataset, case.seed, config.max_train_rows)
    return split
