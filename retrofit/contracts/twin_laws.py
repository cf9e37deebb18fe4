"""Twins of the hosts against their formulas, at presences between 0.1 and 0.9 and at NULL tokens.

Small models of every generation, all weights drawn, are patched as any host is. Then every kind of
twin is run in every way in which the forward pass runs it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from retrofit.config import RetrofitConfig
from retrofit.contracts.closure_laws import drawn
from retrofit.contracts.module_laws import EPS_DEN, compared
from retrofit.hosts.anatomy import AttentionStep
from retrofit.hosts.declare import Presence, declaring
from retrofit.hosts.registry import generations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from retrofit.contracts.figures import Figure, Setting
    from retrofit.hosts.anatomy import Specimen
    from retrofit.hosts.generation import Generation
    from retrofit.words import Variant


def twin_formulas(setting: Setting) -> list[Figure]:
    """Compare every kind of twin with its formula; float64 and float32 only."""
    if setting.dtype not in (torch.float64, torch.float32):
        return []
    return [
        figure
        for generation in generations()
        for variant in generation.variants
        for figure in figures_of(setting, generation, variant)
    ]


def figures_of(setting: Setting, generation: Generation, variant: Variant) -> list[Figure]:
    """The figures of one generation and variant; of `closed`, with a declaration as well."""
    figures, where = [], f"{generation.name}, {variant}"
    for specimen in specimens(setting, generation, variant):
        figures += compared(setting, specimen, f"{where}: ", null=variant != "oa")
        if variant == "closed":
            figures += compared(setting, _declared(specimen), f"{where}, declared: ")
    return figures


def specimens(setting: Setting, generation: Generation, variant: Variant) -> Iterator[Specimen]:
    """The specimens of a small patched model, with another tau for every stream."""
    config, _ = generation.architecture.parse_config(dict(generation.small))
    model: Any = drawn(setting, generation.build(config))
    streams = generation.streams(model.config, variant)
    tau = {name: 6.0 + 4.0 * (place % 6) for place, name in enumerate(streams)}
    generation.swap(model, RetrofitConfig(variant, "fixed", tau, EPS_DEN))
    yield from generation.specimens(model)


def _declared(specimen: Specimen) -> Specimen:
    """The specimen in a call that declares which rows and columns are there."""

    def run(receivers: Tensor, sources: Tensor) -> Tensor:
        with declaring(Presence()):
            return specimen.run(receivers, sources)

    steps = tuple(
        replace(step, among_present=True) if isinstance(step, AttentionStep) else step
        for step in specimen.steps
    )
    return replace(specimen, steps=steps, run=run)


TWIN_LAWS: dict[str, Callable[[Setting], list[Figure]]] = {"twin_formulas": twin_formulas}
