"""Every O-change of the closed host, taken back one at a time on a copy.

What then leaks shows what the change is for: whether inertness is exact without it, and whether
a token that is small but not zero stays nearly inert without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from typing_extensions import override

from experiments.studies.audit.follow import declaration
from experiments.studies.audit.insertions import filled
from experiments.studies.audit.stages import largest, null_mask, run
from retrofit.hosts.clone import alias
from retrofit.hosts.gates import Gates
from retrofit.hosts.registry import generation_of_model
from retrofit.hosts.sites import POSITIONS_BY_RANK, SOURCES_COUNTED
from retrofit.hosts.stages import CELLS, LOGITS

if TYPE_CHECKING:
    from torch import Tensor, nn

    from experiments.studies.audit.insertions import ModelTable, Placement
    from retrofit.hosts.rotary import Rotary
    from retrofit.hosts.stages import Stage


@dataclass(frozen=True)
class OpenGates(Gates):
    """Gates of which some are taken out."""

    open: frozenset[str] = frozenset()
    """Names of O-changes that are taken back; attributes of injections and statistics."""

    @override
    def attend(
        self,
        attribute: str,
        q_BSHD: Tensor,
        k_BJHD: Tensor,
        v_BJHD: Tensor,
        p_BJ: Tensor,
        p_BS: Tensor | None,
    ) -> Tensor:
        p_BJ = torch.ones_like(p_BJ) if SOURCES in self.open else p_BJ
        p_BS = None if RECEIVERS in self.open else p_BS
        return super().attend(attribute, q_BSHD, k_BJHD, v_BJHD, p_BJ, p_BS)

    @override
    def feed_forward_parts(
        self, mlp: nn.Module, norm: nn.Module | None, attribute: str, h: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        update, p = super().feed_forward_parts(mlp, norm, attribute, h)
        return update, None if OFFN in self.open else p

    @override
    def norm(
        self, norm: nn.Module, attribute: str, h: Tensor, p: Tensor | None, n: Tensor | None = None
    ) -> Tensor:
        gates = replace(self, full=False) if ONORM in self.open else self
        return Gates.norm(gates, norm, attribute, h, p, n)

    @override
    def source_count(self, p_BJ: Tensor) -> int | Tensor:
        return p_BJ.shape[1] if SOURCES_COUNTED in self.open else super().source_count(p_BJ)

    @override
    def rotate(self, rope: Rotary | None, t_BSHD: Tensor, p_BS: Tensor) -> Tensor:
        closed = self.closed and POSITIONS_BY_RANK not in self.open
        return Gates.rotate(replace(self, closed=closed), rope, t_BSHD, p_BS)

    @override
    def inject(self, attribute: str, injected: Tensor, p: Tensor) -> Tensor:
        p = torch.ones_like(p) if attribute in self.open else p
        return super().inject(attribute, injected, p)

    @override
    def support(self, attribute: str, present: Tensor) -> Tensor:
        present = torch.ones_like(present) if attribute in self.open else present
        return super().support(attribute, present)


SOURCES, RECEIVERS = "presence of sources", "presence of receivers"
OFFN, ONORM, BOTH = "OFFN gate", "ONorm gate", "OFFN and ONorm gates"
_WORDED = (SOURCES_COUNTED, POSITIONS_BY_RANK)


@dataclass(frozen=True)
class Change:
    """One O-change, or two, that a host is to do without."""

    name: str
    open: frozenset[str]


def changes(model: Any) -> list[Change]:
    """Every O-change of a closed model, alone; none; and both that buy continuity only."""
    sites = generation_of_model(model).site_map(model.config)
    of_blocks = {name: name for name in (SOURCES, RECEIVERS, OFFN, ONORM)}
    of_host = {
        site.change: site.change if site.change in _WORDED else site.name.rpartition(".")[2]
        for site in sites
        if site.change
    }
    alone = {**of_blocks, **{name: of_host[name] for name in _WORDED if name in of_host}, **of_host}
    found = [Change(name, frozenset([gate])) for name, gate in alone.items()]
    both = Change(BOTH, frozenset([OFFN, ONORM]))
    return [Change("none", frozenset()), *found[:4], both, *found[4:]]


CONTINUITY = ("none", RECEIVERS, OFFN, ONORM, BOTH)
"""The gates whose use may lie in tokens that are small but not zero."""


def without(model: Any, change: Change) -> Any:
    """A copy of a closed model that lacks one change; they share their weights."""
    copied = alias(model)
    for module in copied.modules():
        if isinstance(getattr(module, "gates", None), Gates):
            module.gates = OpenGates(**vars(module.gates), open=change.open)
    return copied


@dataclass(frozen=True)
class ChangeRow:
    """What a closed host does without one of its changes."""

    change: str
    insertion: str
    shift: float
    """Largest change of a logit of a present row (L-inf)."""
    relative_shift: float
    null: float
    """Largest entry of a NULL token's state at any stage."""


def leave_out(model: Any, change: Change, table: ModelTable, where: Placement) -> ChangeRow:
    """Take one change back, insert, and measure."""
    incomplete = without(model, change)
    before = run(incomplete, table)[LOGITS]
    states = run(incomplete, filled(table, where, "garbage"), declaration(where))
    logits = states.pop(LOGITS)
    awake = max(largest(state) for state in _null_states(incomplete, where, states))
    shift = largest(logits[where.test] - before)
    return ChangeRow(change.name, where.name, shift, shift / largest(before), awake)


@dataclass(frozen=True)
class ContinuityRow:
    """What a closed host lets a token do that is small but not zero."""

    change: str
    """The change that is left out."""
    carrier: float
    """Norm of the inserted cells, relative to the median norm of the others."""
    relative_shift: float


def nearly_null(
    model: Any, change: Change, table: ModelTable, where: Placement, carrier: float
) -> ContinuityRow:
    """Shift of the logits when the NULL cells are not zero but small, without one change."""
    incomplete = without(model, change)
    before = run(incomplete, table)[LOGITS]
    generator = torch.Generator().manual_seed(0)

    def disturb(stage: Stage, state: Tensor) -> Tensor:
        if stage.name != CELLS:
            return state
        null = null_mask(stage, where)[None]
        norm = state[~null].norm(dim=-1).median()
        drawn = torch.randn(state.shape, generator=generator, dtype=state.dtype)
        small = drawn / drawn.norm(dim=-1, keepdim=True) * norm * carrier
        return torch.where(null[..., None], small, state)

    states = run(incomplete, filled(table, where, "garbage"), declaration(where), disturb)
    shift = largest(states[LOGITS][where.test] - before)
    return ContinuityRow(change.name, carrier, shift / largest(before))


def _null_states(model: Any, where: Placement, states: dict[str, Tensor]) -> list[Tensor]:
    from experiments.studies.audit.stages import split, stages

    return [split(states[stage.name], null_mask(stage, where))[1] for stage in stages(model)[:-1]]
