"""The whole audit of one host: every variant, every way in, every site, every change left out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import torch

from experiments.errors import ConfigError
from experiments.studies.audit.changes import CONTINUITY, changes, leave_out, nearly_null
from experiments.studies.audit.follow import declaration, entries, follow
from experiments.studies.audit.insertions import filled, insertions, synthetic_table
from experiments.studies.audit.sites import site_rows
from experiments.studies.audit.stages import largest, run
from retrofit.hosts.clone import alias
from retrofit.hosts.stages import LOGITS
from retrofit.words import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from experiments.studies.audit.insertions import ModelTable, Placement
    from retrofit import Host

TOLERANCE = 1e-9
"""Relative shift, or size of a NULL token, beyond which a stage leaks; float64 rounds at 1e-16."""
CARRIERS = (1e-5, 1e-4, 1e-3)
"""Norms of nearly-NULL cells, relative to the others' median."""
CONTINUITY_PLACE = "columns, end"


@dataclass(frozen=True, eq=False)
class Audit:
    """The figures of one host as tidy tables."""

    stages: pd.DataFrame
    """One row per variant, way in, insertion and stage (``StageRow``)."""
    sites: pd.DataFrame
    """One row per variant and site (``SiteRow``)."""
    exactness: pd.DataFrame
    """One row per dtype and insertion, closed host (``ExactnessRow``)."""
    changes: pd.DataFrame
    """One row per change left out and insertion (``ChangeRow``)."""
    continuity: pd.DataFrame
    """One row per change left out and carrier (``ContinuityRow``)."""

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class ExactnessRow:
    """How far a closed host's output moves when NULL rows or columns are put in."""

    dtype: str
    insertion: str
    logits: float
    """Largest change of a logit, relative to the largest logit."""
    prediction: float
    """Largest change of a predicted mean, in standard deviations of the target."""


def audit(
    host: Host,
    variants: Sequence[str] = ("stock", *VARIANTS),
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> Audit:
    """Audit a host in float64 on a small synthetic table.

    Raises:
        ConfigError: a variant is unknown.
        retrofit.errors.RetrofitError: the host cannot be patched.
    """
    import retrofit

    unknown = set(variants) - {"stock", *VARIANTS}
    if unknown:
        known = ", ".join(("stock", *VARIANTS))
        raise ConfigError(f"no variant {', '.join(sorted(unknown))}; there are {known}")
    table = synthetic_table()
    models: dict[str, Any] = {}
    for variant in variants:
        patched = host if variant == "stock" else retrofit.patch(host, cast("Any", variant))
        models[variant] = alias(patched.model).double()
    stage_rows, sites = [], []
    for variant, model in models.items():
        progress(f"{variant}: stages")
        for where in insertions(table):
            for entry in entries(variant):
                stage_rows += follow(variant, model, table, where, entry)
        progress(f"{variant}: sites")
        sites += site_rows(variant, model, table, TOLERANCE)
    closed = models.get("closed")
    exactness, left_out, continuity = [], [], []
    if closed is not None:
        progress("closed: exactness")
        exactness = _exactness(host, closed, table)
        every_change = changes(closed)
        for change in every_change:
            progress(f"closed without {change.name}")
            left_out += [leave_out(closed, change, table, where) for where in insertions(table)]
        place = _place(table, CONTINUITY_PLACE)
        continuity = [
            nearly_null(closed, change, table, place, carrier)
            for change in every_change
            if change.name in CONTINUITY
            for carrier in CARRIERS
        ]
    return Audit(
        _frame(stage_rows), _frame(sites), _frame(exactness), _frame(left_out), _frame(continuity)
    )


def _exactness(host: Host, closed: Any, table: ModelTable) -> list[ExactnessRow]:
    rows = []
    for dtype in (torch.float64, torch.float32):
        model = alias(closed).to(dtype)
        criterion = alias(host.criterion).to(dtype)
        before = run(model, table)[LOGITS][:, 0]
        for where in insertions(table):
            states = run(model, filled(table, where, "garbage"), declaration(where))
            after = states[LOGITS][where.test, 0]
            moved = criterion.mean(after) - criterion.mean(before)
            logits = largest(after - before) / largest(before)
            # The host works on targets of standard deviation 1.
            rows.append(ExactnessRow(str(dtype)[6:], where.name, logits, largest(moved)))
    return rows


def _place(table: ModelTable, name: str) -> Placement:
    return next(where for where in insertions(table) if where.name == name)


def _frame(rows: Iterable[Any]) -> pd.DataFrame:
    frame: pd.DataFrame = pd.DataFrame([asdict(row) for row in rows])
    return frame
