"""Twins of the hosts against their formulas, at presences between 0.1 and 0.9 and at NULL tokens.

Small models of every generation, all weights drawn, are patched as any host is. Then every kind of
twin is run in every way in which the forward pass runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tabpfn.architectures import tabpfn_v3

from retrofit.config import RetrofitConfig, Variant
from retrofit.contracts.closure_laws import drawn
from retrofit.contracts.module_laws import EPS_DEN, compared
from retrofit.hosts.v3 import adapter as v3
from retrofit.hosts.v3 import specimens as v3_specimens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from retrofit.contracts.figures import Figure, Setting
    from retrofit.hosts.anatomy import Specimen

VARIANTS: tuple[Variant, ...] = ("oa", "full", "closed")


def twin_formulas(setting: Setting) -> list[Figure]:
    """Compare every kind of twin with its formula; float64 and float32 only."""
    if setting.dtype not in (torch.float64, torch.float32):
        return []
    figures = []
    for variant in VARIANTS:
        for specimen in specimens(setting, variant):
            figures += compared(setting, specimen, f"v3, {variant}: ", null=variant != "oa")
    return figures


def specimens(setting: Setting, variant: Variant) -> Iterator[Specimen]:
    """The specimens of a small patched model, with another tau for every stream."""
    config, _ = tabpfn_v3.parse_config(dict(v3_specimens.SMALL))
    model: Any = drawn(setting, tabpfn_v3.get_architecture(config))
    streams = v3.streams(model.config, variant)
    tau = {name: 6.0 + 4.0 * (place % 3) for place, name in enumerate(streams)}
    v3.swap(model, RetrofitConfig(variant, "fixed", tau, EPS_DEN))
    yield from v3_specimens.specimens(model)


TWIN_LAWS: dict[str, Callable[[Setting], list[Figure]]] = {"twin_formulas": twin_formulas}
