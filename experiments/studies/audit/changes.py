"""Every O-change of the closed host, taken back one at a time on a copy.

What then leaks shows what the change is for: whether inertness is exact without it, and whether
a token that is small but not zero stays nearly inert without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from experiments.studies.audit.follow import declaration
from experiments.studies.audit.insertions import filled
from experiments.studies.audit.stages import CELLS, LOGITS, largest, null_mask, run
from retrofit.hosts.clone import alias
from retrofit.hosts.gates import Gates
from retrofit.hosts.v3.closed import OClosedTabPFNV3
from retrofit.hosts.v3.closed_blocks import OColumnAggregator, OInducedBlock

if TYPE_CHECKING:
    from torch import Tensor, nn

    from experiments.studies.audit.insertions import Insertion, ModelTable
    from experiments.studies.audit.stages import Stage
    from retrofit.hosts.rotary import Rotary


class _OpenSources(Gates):
    @override
    def attend(
        self, attribute: str, q_BSHD: Tensor, k_BJHD: Tensor, v_BJHD: Tensor, p_BJ: Tensor
    ) -> Tensor:
        return super().attend(attribute, q_BSHD, k_BJHD, v_BJHD, torch.ones_like(p_BJ))


class _OpenReceivers(Gates):
    @override
    def emit(self, update: Tensor, p: Tensor) -> Tensor:
        return update


class _OpenFeedForward(Gates):
    @override
    def feed_forward(self, mlp: nn.Module, norm: nn.Module, attribute: str, h: Tensor) -> Tensor:
        out: Tensor = mlp(self.norm(norm, attribute, h, self.presence("ffn", h)))
        return out


class _OpenNorms(Gates):
    @override
    def norm(self, norm: nn.Module, attribute: str, h: Tensor, p: Tensor) -> Tensor:
        out: Tensor = norm(h)
        return out


class _OpenFeedForwardAndNorms(_OpenFeedForward, _OpenNorms):
    pass


class _CountAllSources(Gates):
    @override
    def source_count(self, p_BJ: Tensor) -> int | Tensor:
        return p_BJ.shape[1]


class _PositionsByIndex(Gates):
    @override
    def rotate(self, rope: Rotary | None, t_BSHD: Tensor, p_BS: Tensor) -> Tensor:
        return Gates(**{**vars(self), "closed": False}).rotate(rope, t_BSHD, p_BS)


class _OpenCells(OClosedTabPFNV3):
    @override
    def _gated_cells(self, x_BRCE: Tensor, p_BRC: Tensor) -> Tensor:
        return x_BRCE


class _OpenColumnTargets(OClosedTabPFNV3):
    @override
    def _gated_column_target(self, y_BN1E: Tensor, p_BNC: Tensor) -> Tensor:
        return y_BN1E


class _OpenRowTargets(OClosedTabPFNV3):
    @override
    def _gated_row_target(self, y_BNW: Tensor, p_BN: Tensor) -> Tensor:
        return y_BNW


class _StatisticsOfAllRows(OClosedTabPFNV3):
    @override
    def _statistics(self, x_NBC: Tensor, present_NBC: Tensor) -> dict[str, Tensor]:
        return super()._statistics(x_NBC, torch.ones_like(present_NBC))


class _TargetMeanOfAllRows(OClosedTabPFNV3):
    @override
    def _prepare_y(self, y: Tensor, num_train: int, batch_size: int) -> Tensor:
        if y.dim() == 3:
            y = torch.stack((y[..., 0].where(y[..., 1] > 0, 0.0), y[..., 1]), dim=-1)
        return super()._prepare_y(y, num_train, batch_size)


class _GroupsOfAllColumns(OClosedTabPFNV3):
    @override
    def _group_present(self, values: list[Tensor], columns_BC: Tensor) -> list[Tensor]:
        return super()._group_present(values, torch.ones_like(columns_BC))


class _OpenClsTokens(OColumnAggregator):
    @override
    def _present_only(self, cls_BRQE: Tensor, present_BR: Tensor) -> Tensor:
        return cls_BRQE


class _OpenInducingVectors(OInducedBlock):
    @override
    def _present_only(self, inducing_BIE: Tensor, present_B: Tensor) -> Tensor:
        return inducing_BIE


@dataclass(frozen=True)
class Change:
    """One O-change, and the class that lacks it."""

    name: str
    without: type[Gates] | type[nn.Module] | None


CHANGES = (
    Change("none", None),
    Change("presence of sources", _OpenSources),
    Change("presence of receivers", _OpenReceivers),
    Change("OFFN gate", _OpenFeedForward),
    Change("ONorm gate", _OpenNorms),
    Change("OFFN and ONorm gates", _OpenFeedForwardAndNorms),
    Change("number of present sources", _CountAllSources),
    Change("positions by rank", _PositionsByIndex),
    Change("gated cells", _OpenCells),
    Change("gated column targets", _OpenColumnTargets),
    Change("gated row targets", _OpenRowTargets),
    Change("statistics of present rows", _StatisticsOfAllRows),
    Change("target mean of present rows", _TargetMeanOfAllRows),
    Change("groups of present columns", _GroupsOfAllColumns),
    Change("gated CLS tokens", _OpenClsTokens),
    Change("gated inducing vectors", _OpenInducingVectors),
)

CONTINUITY = tuple(
    change
    for change in CHANGES
    if change.without is None
    or change.name in ("presence of receivers", "OFFN gate", "ONorm gate", "OFFN and ONorm gates")
)
"""The gates whose use may lie in tokens that are small but not zero."""


def without(model: OClosedTabPFNV3, change: Change) -> OClosedTabPFNV3:
    """A copy of a closed model that lacks one change; they share their weights."""
    copied = alias(model)
    if change.without is None:
        return copied
    if issubclass(change.without, Gates):
        for module in copied.modules():
            if isinstance(getattr(module, "gates", None), Gates):
                module.gates = change.without(**vars(module.gates))
        return copied
    stock_parent = change.without.__mro__[1]
    for module in copied.modules():
        if type(module) is stock_parent:
            module.__class__ = change.without
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


def leave_out(
    model: OClosedTabPFNV3, change: Change, table: ModelTable, where: Insertion
) -> ChangeRow:
    """Take one change back, insert, and measure."""
    incomplete = without(model, change)
    before = run(incomplete, table)[LOGITS.name]
    states = run(incomplete, filled(table, where, "garbage"), declaration(where))
    logits = states.pop(LOGITS.name)
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
    model: OClosedTabPFNV3, change: Change, table: ModelTable, where: Insertion, carrier: float
) -> ContinuityRow:
    """Shift of the logits when the NULL cells are not zero but small, without one change."""
    incomplete = without(model, change)
    before = run(incomplete, table)[LOGITS.name]
    generator = torch.Generator().manual_seed(0)

    def disturb(stage: Stage, state: Tensor) -> Tensor:
        if stage.name != CELLS:
            return state
        null = null_mask(stage.layout, where, model.config)[None]
        norm = state[~null].norm(dim=-1).median()
        drawn = torch.randn(state.shape, generator=generator, dtype=state.dtype)
        small = drawn / drawn.norm(dim=-1, keepdim=True) * norm * carrier
        return torch.where(null[..., None], small, state)

    states = run(incomplete, filled(table, where, "garbage"), declaration(where), disturb)
    shift = largest(states[LOGITS.name][where.test] - before)
    return ContinuityRow(change.name, carrier, shift / largest(before))


def _null_states(
    model: OClosedTabPFNV3, where: Insertion, states: dict[str, Tensor]
) -> list[Tensor]:
    from experiments.studies.audit.stages import split, stages

    return [
        split(states[stage.name], null_mask(stage.layout, where, model.config))[1]
        for stage in stages(model.config)
    ]
