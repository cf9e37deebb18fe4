"""How a NULL row or column shifts the states of a host, stage by stage.

A NULL token enters in one of three ways. ``raw``: its cells stand in the table, as zeros or as
missing values (a closed host is told, and finds garbage there). ``carrier``: its carriers are
exactly zero where blocks begin, and run on from there. ``own``: its carriers are zero, and the
others as without it, before every stage, so that each stage shows what it alone does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from experiments.studies.audit.insertions import filled
from experiments.studies.audit.stages import CELLS, LOGITS, largest, null_mask, run, split, stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from tabpfn.architectures.tabpfn_v3 import TabPFNV3
    from torch import Tensor

    from experiments.studies.audit.insertions import Fill, Insertion, ModelTable
    from experiments.studies.audit.stages import Stage, States
    from retrofit import Presence

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
    variant: str, model: TabPFNV3, table: ModelTable, where: Insertion, entry: Entry
) -> list[StageRow]:
    """One row per stage, the logits last."""
    before = run(model, table)
    after = run_with(variant, model, table, where, entry, before)
    rows = []
    for order, stage in enumerate([*stages(model.config), LOGITS]):
        null = null_mask(stage.layout, where, model.config)
        kept, inserted = split(after[stage.name], null)
        reference, _ = split(before[stage.name], torch.zeros(kept.shape[:1], dtype=torch.bool))
        shift = largest(kept - reference)
        size = largest(reference)
        row = StageRow(
            variant, entry, where.name, order, stage.name, shift, shift / size, _size(inserted)
        )
        rows.append(row)
    return rows


def run_with(
    variant: str,
    model: TabPFNV3,
    table: ModelTable,
    where: Insertion,
    entry: Entry,
    before: States,
) -> States:
    """States of the table with NULL rows and columns that came in by ``entry``."""
    fill: Fill = "garbage" if variant == "closed" else "zero"
    if entry == "raw missing":
        fill = "missing"
    rewrite = None
    if entry == "carrier":
        rewrite = restored(model, where, before, only=CELLS)
    elif entry == "own":
        rewrite = restored(model, where, before)
    presence = declaration(where) if variant == "closed" else None
    return run(model, filled(table, where, fill), presence, rewrite)


def declaration(where: Insertion) -> Presence:
    """What a closed host is told of an insertion."""
    from retrofit import Presence

    return Presence(where.train, where.test, where.columns)


def restored(
    model: TabPFNV3, where: Insertion, before: States, only: str | None = None
) -> Callable[[Stage, Tensor], Tensor]:
    """Replaces states by those of the plain table, with zeros for the inserted tokens."""

    def rewrite(stage: Stage, state: Tensor) -> Tensor:
        if only not in (None, stage.name):
            return state
        null = null_mask(stage.layout, where, model.config)
        tokens = torch.zeros_like(state).reshape(*null.shape, -1)
        tokens[~null] = before[stage.name].reshape(-1, tokens.shape[-1])
        return tokens.reshape(state.shape)

    return rewrite


def _size(inserted: Tensor) -> float:
    """Largest entry; a NULL test row's logits are NaN where the host flags them."""
    return largest(torch.nan_to_num(inserted, nan=0.0))
