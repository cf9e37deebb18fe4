"""Per site of a host: does it absorb a NULL token, wake it, or let it count?

A site revives a NULL token if it gives it a state; it dilutes the others if it moves theirs. Each
site is looked at as its generation says (``Generation.looks``): as a rule with the rest of its
block silenced, on carriers that are the plain table's own and exactly zero for NULL tokens.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from experiments.studies.audit.follow import declaration, follow, run_with
from experiments.studies.audit.insertions import filled, insertions
from experiments.studies.audit.stages import largest, null_mask, run, split, stages
from retrofit.hosts.clone import alias
from retrofit.hosts.registry import generation_of_model
from retrofit.hosts.sites import SOURCES_COUNTED
from retrofit.hosts.stages import Stage

if TYPE_CHECKING:
    from experiments.studies.audit.follow import Entry, StageRow
    from experiments.studies.audit.insertions import ModelTable
    from retrofit.hosts.sites import Site
    from retrofit.hosts.stages import Look
    from retrofit.words import SiteKind


@dataclass(frozen=True)
class SiteRow:
    """What one site of one variant does to NULL tokens and because of them."""

    variant: str
    site: str
    kind: SiteKind
    revives: float
    """Largest entry that it gives to a NULL token."""
    dilutes: float
    """Largest change of another token or statistic, relative to the largest."""
    verdict: str
    """``absorbs``, ``revives``, ``dilutes`` or ``revives and dilutes``."""


def site_rows(variant: str, model: Any, table: ModelTable, tolerance: float) -> list[SiteRow]:
    """One row per site of the host's map, in the map's order."""
    generation = generation_of_model(model)
    sites, looks = generation.site_map(model.config), generation.looks(model.config)
    counting = [site.name for site in sites if site.change == SOURCES_COUNTED]
    examiner = _Examiner(variant, model, table, counting)
    rows = []
    for site in sites:
        revives, dilutes = examiner.figures(site, looks[site.name])
        words = [
            word
            for word, figure in (("revives", revives), ("dilutes", dilutes))
            if figure > tolerance
        ]
        verdict = " and ".join(words) or "absorbs"
        rows.append(SiteRow(variant, site.name, site.kind, revives, dilutes, verdict))
    return rows


class _Examiner:
    """The runs that the figures of all sites are read from."""

    def __init__(self, variant: str, model: Any, table: ModelTable, counting: list[str]) -> None:
        self.variant, self.model, self.table, self.counting = variant, model, table, counting
        self.places = {where.name: where for where in insertions(table)}
        self._rows = cache(self._rows_of)
        self._silenced = cache(lambda layers: _silenced(model, layers))
        self._scaled: dict[str, float] = {}

    def figures(self, site: Site, look: Look) -> tuple[float, float]:
        """How much the site revives and dilutes."""
        match look.way:
            case "zero":
                revives, dilutes = self._of_zero(site.name), 0.0
            case "count":
                revives, dilutes = 0.0, self._of_count(site.name, look.places[0])
            case "rank":
                revives, dilutes = 0.0, self._of_rank(look)
            case _:
                rows = [row for place in look.places for row in self._shown(look, place)]
                # A stage that this variant or size does not have says nothing.
                revives = max((row.null for row in rows), default=torch.nan)
                dilutes = max((row.relative_shift for row in rows), default=torch.nan)
        return revives if look.revives else 0.0, dilutes if look.dilutes else 0.0

    def _shown(self, look: Look, place: str) -> list[StageRow]:
        names = [stage if isinstance(stage, str) else stage.name for stage in look.stages]
        more = tuple(stage for stage in look.stages if isinstance(stage, Stage))
        rows = self._rows(look.way, look.silenced, place, more)
        return [row for row in rows if row.stage in names]

    def _rows_of(
        self, way: str, silenced: tuple[str, ...], place: str, more: tuple[Stage, ...]
    ) -> list[StageRow]:
        model, where = self._silenced(silenced), self.places[place]
        if way == "own":
            with _frozen_counts(model, self.counting, self.table.train):
                return follow(self.variant, model, self.table, where, "own", more)
        entry: Entry = "raw garbage" if self.variant == "closed" else "raw zero"
        return follow(self.variant, model, self.table, where, entry, more)

    def _of_rank(self, look: Look) -> float:
        """How far the columns' states depend on where among them a NULL column stands."""
        model = self._silenced(look.silenced)
        before = run(model, self.table)
        end, middle = (self.places[place] for place in look.places)
        after = {
            where.name: run_with(self.variant, model, self.table, where, "own", before)
            for where in (end, middle)
        }
        gaps = [0.0]
        for stage in stages(model):
            if stage.name in look.stages:
                at_end, between = (
                    split(after[where.name][stage.name], null_mask(stage, where))[0]
                    for where in (end, middle)
                )
                gaps.append(largest(between - at_end) / largest(before[stage.name]))
        return max(gaps)

    def _of_count(self, name: str, place: str) -> float:
        """Change of a module's output by NULL train rows in the number of sources."""
        if not self._scaled:
            where = self.places[place]
            presence = declaration(where) if self.variant == "closed" else None
            with ExitStack() as hooks:
                for counting in self.counting:
                    module = self.model.get_submodule(counting)
                    hook = module.register_forward_pre_hook(self._noting(counting))
                    hooks.callback(hook.remove)
                run(self.model, filled(self.table, where, "zero"), presence)
        return self._scaled[name]

    def _noting(self, name: str) -> Any:
        def note(module: nn.Module, args: tuple[Any, ...]) -> None:
            q_BSHD, n = args
            plain, counted = (module.forward(q_BSHD, number) for number in (self.table.train, n))
            change = largest(counted - plain) / max(largest(plain), 1e-300)
            self._scaled[name] = max(self._scaled.get(name, 0.0), change)

        return note

    def _of_zero(self, name: str) -> float:
        norm = self.model.get_submodule(name)
        zero = torch.zeros(1, *norm.normalized_shape, dtype=next(self.model.parameters()).dtype)
        with torch.inference_mode():
            return largest(norm(zero))


class _frozen_counts(ExitStack):
    """Scores scaled as for ``count`` sources inside the block, however many there are."""

    def __init__(self, model: nn.Module, counting: list[str], count: int) -> None:
        super().__init__()
        for name in counting:
            module = model.get_submodule(name)
            hook = module.register_forward_pre_hook(lambda _, args: (args[0], count))
            self.callback(hook.remove)


def _silenced(model: Any, layers: tuple[str, ...]) -> Any:
    """A copy of a model in which the named linear layers give zero."""
    copied = alias(model)
    for name in layers:
        layer = copied.get_submodule(name)
        for part, weight in list(layer.named_parameters()):
            setattr(layer, part, nn.Parameter(torch.zeros_like(weight), requires_grad=False))
    return copied
