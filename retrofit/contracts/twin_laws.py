"""Twins of the hosts against their formulas, at presences between 0.1 and 0.9 and at NULL tokens.

Small models of every generation, all weights drawn, are patched as any host is. Then every kind of
twin is run in every way in which the forward pass runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from retrofit.config import RetrofitConfig
from retrofit.contracts.closure_laws import drawn
from retrofit.contracts.module_laws import EPS_DEN, compared
from retrofit.hosts.registry import generations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from retrofit.contracts.figures import Figure, Setting
    from retrofit.hosts.anatomy import Specimen
    from retrofit.hosts.generation import Generation
    from retrofit.words import Variant


def twin_formulas(setting: Setting) -> list[Figure]:
    """Compare every kind of twin with its formula; float64 and float32 only."""
    if setting.dtype not in (torch.float64, torch.float32):
        return []
    figures = []
    for generation in generations():
        for variant in generation.variants:
            where = f"{generation.name}, {variant}: "
            for specimen in specimens(setting, generation, variant):
                figures += compared(setting, specimen, where, null=variant != "oa")
    return figures


def specimens(setting: Setting, generation: Generation, variant: Variant) -> Iterator[Specimen]:
    """The specimens of a small patched model, with another tau for every stream."""
    config, _ = generation.architecture.parse_config(dict(generation.small))
    model: Any = drawn(setting, generation.build(config))
    streams = generation.streams(model.config, variant)
    tau = {name: 6.0 + 4.0 * (place % 6) for place, name in enumerate(streams)}
    generation.swap(model, RetrofitConfig(variant, "fixed", tau, EPS_DEN))
    yield from generation.specimens(model)


TWIN_LAWS: dict[str, Callable[[Setting], list[Figure]]] = {"twin_formulas": twin_formulas}
