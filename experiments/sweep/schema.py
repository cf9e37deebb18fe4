"""The rows of ``cases.csv``: their columns, their order, and how a value is written.

Shared by those who write results and those who read them; imports neither torch nor tabpfn.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from experiments.sweep.variant_name import MARK

Status = Literal["ok", "constant", "dead", "skipped", "failed"]
"""``ok``: scored. ``constant``: scored, but every training target is equal, so the network never
ran and the row says nothing about a patch. ``dead``: scored, but the stock host gave all test rows
one value, so that no change can be measured against it. ``skipped``: cannot be scored, known before
the run. ``failed``: raised an error."""
STATUSES: tuple[Status, ...] = get_args(Status)
SCORED: tuple[Status, ...] = ("ok", "constant", "dead")
"""Statuses of rows that hold scores."""

VARIANT_ORDER = ("stock", "oa", "full", "closed")
TIMING_COLUMNS = ("fit_s", "predict_s", "peak_rss_mb")


@dataclass(frozen=True)
class CaseRow:
    """One (dataset, seed, variant). Errors of prediction are in units of the target."""

    suite: str
    dataset: str
    source: str
    data_sha256: str
    seed: int
    variant: str
    host: str
    """Empty for a baseline, which has no host."""
    host_sha256: str
    n_train: int
    n_test: int
    n_features: int
    rmse: float = math.nan
    mae: float = math.nan
    r2: float = math.nan
    nll: float = math.nan
    """Mean negative log density of the test targets, in nats per unit of the target."""
    fit_s: float = math.nan
    """Seconds to fit the preprocessing; one fit serves all variants of a case."""
    predict_s: float = math.nan
    """Median seconds of one prediction of the whole test part."""
    peak_rss_mb: float = math.nan
    """Largest resident memory of the process up to the end of this row, in MiB."""
    status: Status = "ok"
    error: str = ""
    """What went wrong, or what to know about this row, in one line."""


COLUMNS = tuple(field.name for field in fields(CaseRow))


def variant_rank(name: str) -> tuple[int, str]:
    """Order of variants: the plan's, each with its target presences, then any others by name."""
    base = name.partition(MARK)[0]
    known = base in VARIANT_ORDER
    return (VARIANT_ORDER.index(base) if known else len(VARIANT_ORDER), name)


def sort_key(row: CaseRow) -> tuple[str, int, tuple[int, str]]:
    """Order of ``cases.csv``; it depends on what a row is, not on when it was finished."""
    return (row.dataset, row.seed, variant_rank(row.variant))


def to_cells(row: CaseRow) -> list[str]:
    """The row as CSV cells: floats in their shortest exact form, NaN as an empty cell."""
    return [_cell(value) for value in asdict(row).values()]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return str(value)


def to_json(row: CaseRow) -> dict[str, Any]:
    """The row as plain JSON types, NaN as null."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in asdict(row).items()
    }


def from_json(record: dict[str, Any]) -> CaseRow:
    """The inverse of ``to_json``."""
    floats = {field.name for field in fields(CaseRow) if field.type == "float"}
    restored: dict[str, Any] = {
        name: math.nan if value is None and name in floats else value
        for name, value in record.items()
    }
    return CaseRow(**restored)
