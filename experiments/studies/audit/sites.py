"""Per site of a v3 host: does it absorb a NULL token, wake it, or let it count?

A site revives a NULL token if it gives it a state; it dilutes the others if it moves theirs. Each
site is looked at with the rest of its block silenced, on carriers that are the plain table's own
and exactly zero for NULL tokens.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from experiments.studies.audit.follow import declaration, follow, run_with
from experiments.studies.audit.insertions import filled, insertions
from experiments.studies.audit.stages import LOGITS, largest, null_mask, run, split, stages
from retrofit.hosts.clone import alias
from retrofit.hosts.registry import generation_of_model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tabpfn.architectures.tabpfn_v3 import TabPFNV3
    from torch import Tensor

    from experiments.studies.audit.follow import Entry, StageRow
    from experiments.studies.audit.insertions import ModelTable
    from experiments.studies.audit.stages import Stage, States
    from retrofit.hosts.sites import Site, SiteKind

_ATTENTION = ("attn", "attention", "icl_attention")
_SHIFT, _NULL = "relative_shift", "null"


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


def site_rows(variant: str, model: TabPFNV3, table: ModelTable, tolerance: float) -> list[SiteRow]:
    """One row per site of the v3 map, in the map's order."""
    examiner = _Examiner(variant, model, table)
    rows = []
    for site in generation_of_model(model).site_map(model.config):
        revives, dilutes = examiner.figures(site)
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

    def __init__(self, variant: str, model: TabPFNV3, table: ModelTable) -> None:
        self.variant, self.model, self.table = variant, model, table
        self.places = {where.name: where for where in insertions(table)}
        without_ffn = _silenced(model, _feed_forwards(model))
        self.attention = self._own(without_ffn)
        self.ffn = self._own(_silenced(model, _attentions(model)))
        self.positions = self._gap(without_ffn)
        self.scalings, self.inducing = self._arguments()
        self.x_only = _silenced(model, [model.col_y_encoder])
        self.y_only = _silenced(model, [model.x_embed])

    def figures(self, site: Site) -> tuple[float, float]:
        """How much the site revives and dilutes."""
        if site.kind == "attention":
            # Inducing vectors are no NULL tokens, and what they are is not this site's doing.
            scaffold = site.owner.endswith("cross_attn_block1")
            revives = 0.0 if scaffold else self.attention[site.owner, _NULL]
            return revives, self.attention[site.owner, _SHIFT]
        if site.kind == "ffn":
            return self.ffn[site.owner, _NULL], self.ffn[site.owner, _SHIFT]
        if site.kind == "norm":
            return self._norm_of_zero(site.name), 0.0
        if site.name.endswith("softmax_scaling_layer"):
            return 0.0, self.scalings[site.name]
        return self._of_host(site)

    def _of_host(self, site: Site) -> tuple[float, float]:
        if site.name.endswith("inducing_vectors"):
            return self.inducing[f"{site.owner}.cross_attn_block1"], 0.0
        first = "cells"
        match site.name:
            case "standard_scaler":
                return 0.0, self._raw(self.x_only, "train, end", first).relative_shift
            case "_group_features":
                return 0.0, self._raw(self.x_only, "columns, middle", first).relative_shift
            case "_prepare_y":
                return 0.0, self._raw(self.y_only, "train, end", first).relative_shift
            case "x_embed":
                return self._raw(self.x_only, "all, mixed", first).null, 0.0
            case "col_y_encoder":
                return self._raw(self.y_only, "all, mixed", first).null, 0.0
            case "column_aggregator.cls_tokens" | "icl_y_encoder":
                return self.attention.get((site.name, _NULL), torch.nan), 0.0
            case "column_aggregator.rope":
                return 0.0, self.positions
            case "output_projection":
                return self._raw(self.model, "test, end", LOGITS.name).null, 0.0
        raise AssertionError(f"no figure for site {site.name}")

    def _raw(self, model: TabPFNV3, place: str, stage: str) -> StageRow:
        entry: Entry = "raw garbage" if self.variant == "closed" else "raw zero"
        rows = follow(self.variant, model, self.table, self.places[place], entry)
        return next(row for row in rows if row.stage == stage)

    def _own(self, model: TabPFNV3) -> dict[tuple[str, str], float]:
        """Largest own figures per stage, over NULL rows and NULL columns at the end."""
        largest_of: dict[tuple[str, str], float] = {}
        for place in ("train, end", "test, end", "columns, end"):
            where = self.places[place]
            with _frozen_counts(model, self.table.train):
                rows = follow(self.variant, model, self.table, where, "own")
            for row in rows:
                scaffold = place == "columns, end" and row.stage.endswith("cross_attn_block1")
                for figure in (_SHIFT, _NULL):
                    value = 0.0 if scaffold else getattr(row, figure)
                    key = row.stage, figure
                    largest_of[key] = max(value, largest_of.get(key, 0.0))
        return largest_of

    def _gap(self, model: TabPFNV3) -> float:
        """How far the columns' states depend on where among them a NULL column stands."""
        before = run(model, self.table)
        states = {
            place: run_with(self.variant, model, self.table, self.places[place], "own", before)
            for place in ("columns, end", "columns, middle")
        }
        gaps = [0.0]
        for stage in stages(model.config):
            if stage.name.startswith("column_aggregator.blocks."):
                end, middle = (
                    split(
                        after[stage.name], null_mask(stage.layout, self.places[place], model.config)
                    )
                    for place, after in states.items()
                )
                gaps.append(largest(middle[0] - end[0]) / largest(before[stage.name]))
        return max(gaps)

    def _kept(self, stage: Stage, after: States, place: str) -> Tensor:
        null = null_mask(stage.layout, self.places[place], self.model.config)
        return split(after[stage.name], null)[0]

    def _arguments(self) -> tuple[dict[str, float], dict[str, float]]:
        """Change of scaled queries by NULL train rows; inducing vectors of NULL columns."""
        modules = dict(self.model.named_modules())
        scaled: dict[str, float] = {}
        inducing: dict[str, float] = {}
        null = ~self.places["columns, end"].columns

        def note_scaling(name: str, module: nn.Module, args: tuple[Any, ...]) -> None:
            q_BSHD, n = args
            plain, count = (module.forward(q_BSHD, number) for number in (self.table.train, n))
            scaled[name] = max(
                scaled.get(name, 0.0), largest(count - plain) / max(largest(plain), 1e-300)
            )

        def note_inducing(name: str, _: nn.Module, args: tuple[Any, ...]) -> None:
            inducing[name] = largest(args[0][null])

        with ExitStack() as hooks:
            for name, module in modules.items():
                if name.endswith("softmax_scaling_layer"):
                    hook = module.register_forward_pre_hook(_named(name, note_scaling))
                    hooks.callback(hook.remove)
            self._plain_run("train, end")
        with ExitStack() as hooks:
            for name, module in modules.items():
                if name.endswith("cross_attn_block1"):
                    hook = module.register_forward_pre_hook(_named(name, note_inducing))
                    hooks.callback(hook.remove)
            self._plain_run("columns, end")
        return scaled, inducing

    def _plain_run(self, place: str) -> None:
        where = self.places[place]
        presence = declaration(where) if self.variant == "closed" else None
        run(self.model, filled(self.table, where, "zero"), presence)

    def _norm_of_zero(self, name: str) -> float:
        norm = self.model.get_submodule(name)
        width = norm.normalized_shape[0]
        zero = torch.zeros(1, width, dtype=next(self.model.parameters()).dtype)
        with torch.inference_mode():
            return largest(norm(zero))


def _named(name: str, note: Any) -> Any:
    return lambda module, args: note(name, module, args)


class _frozen_counts(ExitStack):
    """Scores scaled as for ``count`` sources inside the block, however many there are."""

    def __init__(self, model: nn.Module, count: int) -> None:
        super().__init__()
        for name, module in model.named_modules():
            if name.endswith("softmax_scaling_layer"):
                hook = module.register_forward_pre_hook(lambda _, args: (args[0], count))
                self.callback(hook.remove)


def _attentions(model: nn.Module) -> list[nn.Module]:
    return [
        module.out_projection
        for name, module in model.named_modules()
        if name.rpartition(".")[2] in _ATTENTION
    ]


def _feed_forwards(model: nn.Module) -> list[nn.Module]:
    return [
        module[-1] for name, module in model.named_modules() if name.rpartition(".")[2] == "mlp"
    ]


def _silenced(model: TabPFNV3, layers: Iterable[nn.Module]) -> TabPFNV3:
    """A copy of a model in which the given linear layers give zero."""
    names = {id(module): name for name, module in model.named_modules()}
    silent = [names[id(layer)] for layer in layers]
    copied = alias(model)
    for name in silent:
        layer = copied.get_submodule(name)
        for part, weight in list(layer.named_parameters()):
            setattr(layer, part, nn.Parameter(torch.zeros_like(weight), requires_grad=False))
    return copied
