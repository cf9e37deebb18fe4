"""The laws of the operators, as functions that return measured figures.

Each law builds its inputs from a seed, measures, and returns ``Figure``s: the deviation it saw
beside the bound it must keep. ``oretro check`` prints them; the tests read them.

Source of the laws: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and
O-Closure for Token Dynamics", arXiv 2608.21174, 2026; the bounds are ours unless they say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrofit.contracts.attention_laws import ATTENTION_LAWS
from retrofit.contracts.closure_laws import CLOSURE_LAWS
from retrofit.contracts.figures import Figure, Setting
from retrofit.contracts.insertion_laws import INSERTION_LAWS, masked_insertion_in_torch
from retrofit.contracts.presence_laws import PRESENCE_LAWS
from retrofit.contracts.samples import SHAPES, draw, obstacle

if TYPE_CHECKING:
    from retrofit.ops import Backend

KERNELS: tuple[Backend, ...] = ("naive", "exact", "direct", "fused_lse", "fused_sink")
"""Kernels that the attention laws are measured for, each by itself."""

CONTROLS = {"masked_insertion_in_torch": masked_insertion_in_torch}


def unavailable(setting: Setting) -> str:
    """Say why the setting's kernel does not exist for its dtype and device; empty if it does."""
    return obstacle(setting.kernel, draw(setting, SHAPES[0]))


def measure(setting: Setting) -> list[Figure]:
    """Return the figures of every law that concerns the setting's kernel.

    ``"auto"`` stands for what does not depend on the choice of an attention kernel: presence, the
    closure of the components with the kernel that is chosen for them, and the controls.
    """
    laws = {**ATTENTION_LAWS, **INSERTION_LAWS}
    if setting.kernel == "auto":
        laws = {**PRESENCE_LAWS, **CLOSURE_LAWS, **CONTROLS}
    return [figure for law in laws.values() for figure in law(setting)]


__all__ = [
    "ATTENTION_LAWS",
    "CLOSURE_LAWS",
    "CONTROLS",
    "INSERTION_LAWS",
    "KERNELS",
    "PRESENCE_LAWS",
    "Figure",
    "Setting",
    "measure",
    "unavailable",
]
