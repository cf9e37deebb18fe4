"""The rows of ``cases.csv``: their columns, their order, and how a value is written.

Shared by those who write results and those who read them; imports neither torch nor tabpfn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from experiments.sweep import metrics
from experiments.sweep.variant_name import MARK

if TYPE_CHECKING:
    from collections.abc import Mapping

Status = Literal["ok", "constant", "dead", "skipped", "failed"]
"""``ok``: scored. ``constant``: scored, but every training target is equal, so the network never
ran and the row says nothing about a patch. ``dead``: scored, but the stock host gave all test rows
one value, so that no change can be measured against it. ``skipped``: cannot be scored, known before
the run. ``failed``: raised an error."""
STATUSES: tuple[Status, ...] = get_args(Status)
SCORED: tuple[Status, ...] = ("ok", "constant", "dead")
"""Statuses of rows that hold scores."""

VARIANT_ORDER = ("stock", "oa", "full", "closed")
KEYS = ("suite", "dataset", "seed", "variant")
"""What tells the rows of a table of cases apart."""
TIMING_COLUMNS = ("fit_s", "predict_s", "peak_rss_mb")
_OF_EVERY_SCORED_ROW = ("rmse", "mae")
_NEVER_NEGATIVE = ("rmse", "mae", *TIMING_COLUMNS)


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
    scores: Mapping[str, float] = field(default_factory=dict)
    """By their names in ``metrics.SCORES``; NaN and absent are the same."""
    fit_s: float = math.nan
    """Seconds to fit the preprocessing; one fit serves all variants of a case."""
    predict_s: float = math.nan
    """Median seconds of one prediction of the whole test part."""
    peak_rss_mb: float = math.nan
    """Largest resident memory of the process up to the end of this row, in MiB."""
    status: Status = "ok"
    error: str = ""
    """What went wrong, or what to know about this row, in one line."""

    @property
    def rmse(self) -> float:
        """The score that a row stands or falls with."""
        return self.scores.get("rmse", math.nan)


def columns(table: str = metrics.CASES) -> tuple[str, ...]:
    """Columns of a table of cases: those of a row, with the scores that the table holds.

    A table beside ``cases.csv`` has what tells its rows apart, and its scores.
    """
    scores = [score.name for score in metrics.SCORES if score.table == table]
    if table != metrics.CASES:
        return (*KEYS, *scores)
    names = [item.name for item in fields(CaseRow)]
    place = names.index("scores")
    return (*names[:place], *scores, *names[place + 1 :])


def tables() -> tuple[str, ...]:
    """Names of the tables that hold scores."""
    return tuple(dict.fromkeys(score.table for score in metrics.SCORES))


def variant_rank(name: str) -> tuple[int, str]:
    """Order of variants: the plan's, each with its target presences, then any others by name."""
    base = name.partition(MARK)[0]
    known = base in VARIANT_ORDER
    return (VARIANT_ORDER.index(base) if known else len(VARIANT_ORDER), name)


def sort_key(row: CaseRow) -> tuple[str, int, tuple[int, str]]:
    """Order of ``cases.csv``; it depends on what a row is, not on when it was finished."""
    return (row.dataset, row.seed, variant_rank(row.variant))


def to_cells(row: CaseRow, table: str = metrics.CASES) -> list[Any]:
    """The values of ``columns``."""
    return [_value(row, name) for name in columns(table)]


def to_json(row: CaseRow) -> dict[str, Any]:
    """The row as plain JSON types with every score beside its other fields, NaN as null."""
    names = dict.fromkeys(name for table in tables() for name in columns(table))
    names |= dict.fromkeys(row.scores)
    values = {name: _value(row, name) for name in names}
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in values.items()
    }


def from_json(record: dict[str, Any]) -> CaseRow:
    """The inverse of ``to_json``; a number under no other field's name is a score.

    Raises:
        ValueError: a field is missing or ``fault`` finds one.
    """
    types = {item.name: item.type for item in fields(CaseRow)}
    known: dict[str, Any] = {}
    scores: dict[str, float] = {}
    for name, value in record.items():
        is_float = types.get(name, "float") == "float"
        home = known if name in types else scores
        home[name] = math.nan if value is None and is_float else value
    if missing := types.keys() - known.keys() - {"scores"}:
        raise ValueError(f"no {', '.join(sorted(missing))}")
    row = CaseRow(**{**known, "scores": scores})
    if reason := fault(row):
        raise ValueError(reason)
    return row


def fault(row: CaseRow) -> str:
    """Why a row cannot be one of oretro's, in a few words; empty if it can.

    The one rule that rows are written by and read by.
    """
    types = {item.name: str(item.type) for item in fields(CaseRow) if item.name != "scores"}
    values = {name: getattr(row, name) for name in types} | dict(row.scores)
    for name, value in values.items():
        wanted = {"int": int, "float": float}.get(types.get(name, "float"), str)
        if type(value) is not wanted:
            return f"{name} is a {type(value).__name__}"
        if isinstance(value, int) and not 0 <= value < 2**63:
            return f"{name} is {'negative' if value < 0 else 'too large'}"
        # NaN stands for no value.
        if isinstance(value, float) and math.isinf(value):
            return f"{name} is infinite"
    if row.status not in STATUSES:
        return f"status '{row.status[:80]}' is none of {', '.join(STATUSES)}"
    known = {name: value for name, value in values.items() if value == value}
    for name in _OF_EVERY_SCORED_ROW:
        if row.status in SCORED and name not in known:
            return f"status '{row.status}' but no {name.upper()}"
    for name in _NEVER_NEGATIVE:
        if known.get(name, 0) < 0:
            return f"{name} is negative"
    # The mean of absolute errors is at most the root of their squares' mean, up to rounding.
    if known.get("mae", 0) > known.get("rmse", math.inf) * (1 + 1e-9):
        return "MAE above RMSE"
    return "R2 above 1" if known.get("r2", 0) > 1 else ""


def _value(row: CaseRow, name: str) -> Any:
    return getattr(row, name) if hasattr(row, name) else row.scores.get(name, math.nan)
