"""The laws of functions, modules and hosts' twins, as functions that return measured figures.

Each law builds its inputs from a seed, measures, and returns ``Figure``s: the deviation it saw
beside the bound it must keep. ``oretro check`` prints them; the tests read them.

Source of the laws: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and
O-Closure for Token Dynamics", arXiv 2608.21174, 2026; the bounds are ours unless they say so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from retrofit.contracts.attention_laws import ATTENTION_LAWS
from retrofit.contracts.closure_laws import CLOSURE_LAWS
from retrofit.contracts.figures import Figure, Kind, Setting
from retrofit.contracts.insertion_laws import INSERTION_LAWS, masked_insertion_in_torch
from retrofit.contracts.module_laws import FUNCTION_LAWS, MODULE_LAWS
from retrofit.contracts.presence_laws import PRESENCE_LAWS
from retrofit.contracts.samples import SHAPES, draw, obstacle
from retrofit.contracts.twin_laws import TWIN_LAWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrofit.ops import Backend

KERNELS: tuple[Backend, ...] = ("naive", "exact", "direct", "fused_lse", "fused_sink")
"""Kernels that the attention laws are measured for, each by itself."""

CONTROLS: dict[str, Callable[[Setting], list[Figure]]] = {
    "masked_insertion_in_torch": masked_insertion_in_torch
}


def unavailable(setting: Setting) -> str:
    """Say why the setting's kernel does not exist for its dtype and device; empty if it does."""
    return obstacle(setting.kernel, draw(setting, SHAPES[0]))


def measure(setting: Setting) -> list[Figure]:
    """Return the figures of every law that concerns the setting's kernel.

    ``"auto"`` stands for what does not depend on the choice of an attention kernel: presence and
    gates, modules and twins with the kernel that is chosen for them, and the controls.
    """
    laws: dict[Kind, dict[str, Callable[[Setting], list[Figure]]]] = {
        "function": {**ATTENTION_LAWS, **INSERTION_LAWS}
    }
    if setting.kernel == "auto":
        laws = {
            "function": {**PRESENCE_LAWS, **FUNCTION_LAWS},
            "module": {**MODULE_LAWS, **CLOSURE_LAWS},
            "twin": TWIN_LAWS,
            "control": CONTROLS,
        }
    return [
        replace(figure, kind=kind)
        for kind, of_kind in laws.items()
        for law in of_kind.values()
        for figure in law(setting)
    ]


__all__ = [
    "ATTENTION_LAWS",
    "CLOSURE_LAWS",
    "CONTROLS",
    "FUNCTION_LAWS",
    "INSERTION_LAWS",
    "KERNELS",
    "MODULE_LAWS",
    "PRESENCE_LAWS",
    "TWIN_LAWS",
    "Figure",
    "Setting",
    "measure",
    "unavailable",
]
