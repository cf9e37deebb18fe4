"""The grid of a sweep: which cases there are, on which rows, and which cannot be scored at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.data import load_table, resolve
from experiments.splits import Split, draw_split

if TYPE_CHECKING:
    from experiments.config import SweepConfig
    from experiments.data import Table

MIN_TRAIN_ROWS = 2
MAX_TARGET = 1e30
"""tabpfn standardises in float32: beyond this its bar distribution overflows."""


@dataclass(frozen=True, order=True)
class Case:
    """One data set under one seed: one split, one fitted preprocessing, shared by all variants."""

    dataset: str
    seed: int


@dataclass(frozen=True, eq=False)
class PlannedCase:
    """A case with its table and split, before any model is loaded."""

    case: Case
    table: Table
    split: Split
    skip: str = ""
    """Why the case cannot be scored; empty if it can."""
    remark: str = ""
    """What a reader of its rows should know."""


def enumerate_cases(config: SweepConfig) -> tuple[Case, ...]:
    """The one enumerator: data sets in the order of the configuration, seeds within each.

    Raises:
        DataError: a data set that no source has, or two names for the same one.
    """
    names = []
    for reference in config.datasets:
        _, name = resolve(reference)
        names.append(name)
    cases = tuple(Case(name, seed) for name in names for seed in config.seeds)
    return cases[: config.limit]


def plan_cases(config: SweepConfig) -> tuple[PlannedCase, ...]:
    """Load every table once and draw every split.

    Raises:
        DataError: a table is unknown, unavailable or unusable.
    """
    cases = enumerate_cases(config)
    wanted = {case.dataset for case in cases}
    tables = {}
    for reference in config.datasets:
        _, name = resolve(reference)
        if name in wanted:
            tables[name] = load_table(reference)
    return tuple(_plan(case, tables[case.dataset], config.test_fraction) for case in cases)


def _plan(case: Case, table: Table, test_fraction: float) -> PlannedCase:
    split = draw_split(case.dataset, case.seed, len(table.y), test_fraction)
    y_train = table.y[split.train]
    skip = ""
    if len(split.train) < MIN_TRAIN_ROWS or len(split.test) < 1:
        skip = (
            f"{len(table.y)} rows leave {len(split.train)} to train on and {len(split.test)} to "
            f"test; at least {MIN_TRAIN_ROWS} and 1 are needed"
        )
    remark = ""
    if not skip and np.ptp(y_train) == 0:
        remark = "every training target is equal: the network does not run, the patch is untested"
    return PlannedCase(case, table, split, skip, remark)
