"""How a NULL row or column shifts the states of a host, stage by stage.

A NULL token enters in one of three ways. ``raw``: its cells stand in the table, as zeros or as
missing values (a closed host is told, and finds garbage there). ``carrier``: its carriers are
exactly zero where blocks begin, and run on from there. ``own``: its carriers are zero, and the
others as without it, before every stage, so that each stage shows what it alone does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch

from experiments.studies.audit.insertions import filled
from experiments.studies.audit.stages import largest, null_mask, run, split, stages
from retrofit.hosts.registry import generation_of_model
from retrofit.hosts.stages import CELLS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from experiments.studies.audit.insertions import Fill, ModelTable, Placement
    from experiments.studies.audit.stages import States
    from retrofit import Presence
    from retrofit.hosts.stages import Stage

Entry = Literal["raw zero", "raw missing", "raw garbage", "carrier", "own"]


@dataclass(frozen=True)
class StageRow:
    """What one insertion did at one stage."""

    variant: str
    entry: Entry
    insertion: str
    order: int
    """Place of the stage on the way through the host."""
    stage: str
    label: str
    """The stage as a reader would call it."""
    scaffold: bool
    """Whether a state of a NULL token is no leak there."""
    shift: float
    """Largest change (L-inf) of a state that was there before."""
    relative_shift: float
    """``shift`` over the largest such state."""
    null: float
    """Largest entry of a NULL token's state; 0 means it is still NULL."""


def entries(variant: str) -> tuple[Entry, ...]:
    """The ways in for a variant: only a closed host can be told which cells not to read."""
    raw: tuple[Entry, ...] = (
        ("raw garbage",) if variant == "closed" else ("raw zero", "raw missing")
    )
    return (*raw, "carrier", "own")


def follow(
    variant: str,
    model: Any,
    table: ModelTable,
    where: Placement,
    entry: Entry,
    more: Sequence[Stage] = (),
) -> list[StageRow]:
    """One row per stage, the logits last, and one for each of ``more`` stages after them."""
    before = run(model, table, more=more)
    after = run_with(variant, model, table, where, entry, before, more)
    standing, rows = where, []
    if entry == "raw zero" and generation_of_model(model).drops_constant_columns:
        standing = replace(where, columns=where.columns[where.columns])
    for order, stage in enumerate([*stages(model), *more]):
        null = null_mask(stage, standing)
        kept, inserted = split(after[stage.name], null)
        reference, _ = split(before[stage.name], torch.zeros(kept.shape[:1], dtype=torch.bool))
        shift = largest(kept - reference)
        size = largest(reference)
        row = StageRow(
            variant=variant,
            entry=entry,
            insertion=where.name,
            order=order,
            stage=stage.name,
            label=stage.label,
            scaffold=stage.scaffold,
            shift=shift,
            relative_shift=shift / size,
            null=_size(inserted),
        )
        rows.append(row)
    return rows


def run_with(
    variant: str,
    model: Any,
    table: ModelTable,
    where: Placement,
    entry: Entry,
    before: States,
    more: Sequence[Stage] = (),
) -> States:
    """States of the table with NULL rows and columns that came in by ``entry``."""
    fill: Fill = "garbage" if variant == "closed" else "zero"
    dropped = entry in ("carrier", "own") and generation_of_model(model).drops_constant_columns
    if entry == "raw missing" or (variant != "closed" and dropped):
        fill = "missing"
    rewrite = None
    if entry == "carrier":
        rewrite = restored(where, before, only=CELLS)
    elif entry == "own":
        rewrite = restored(where, before)
    presence = declaration(where) if variant == "closed" else None
    return run(model, filled(table, where, fill), presence, rewrite, more)


def declaration(where: Placement) -> Presence:
    """What a closed host is told of an insertion."""
    from retrofit import Presence

    return Presence(where.train, where.test, where.columns)


def restored(
    where: Placement, before: States, only: str | None = None
) -> Callable[[Stage, Tensor], Tensor]:
    """Replaces states by those of the plain table, with zeros for the inserted tokens."""

    def rewrite(stage: Stage, state: Tensor) -> Tensor:
        if only not in (None, stage.name):
            return state
        null = null_mask(stage, where)
        tokens = torch.zeros_like(state).reshape(*null.shape, -1)
        tokens[~null] = before[stage.name].reshape(-1, tokens.shape[-1])
        return tokens.reshape(state.shape)

    return rewrite


def _size(inserted: Tensor) -> float:
    """Largest entry; a NULL test row's logits are NaN where the host flags them."""
    return largest(torch.nan_to_num(inserted, nan=0.0))
