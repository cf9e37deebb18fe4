"""Words and defaults that every part shares; the standard library alone."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Variant: TypeAlias = Literal["oa", "full", "closed"]
EpsMode: TypeAlias = Literal["absolute", "relative"]
PresenceMode: TypeAlias = Literal["calibrated", "fixed", "one"]
SiteKind: TypeAlias = Literal["attention", "ffn", "norm", "injection", "statistic"]

VARIANTS: tuple[Variant, ...] = get_args(Variant)
EPS_MODES: tuple[EpsMode, ...] = get_args(EpsMode)
KINDS: tuple[SiteKind, ...] = get_args(SiteKind)

DEFAULT_EPS_DEN = 1e-8
DEFAULT_EPS_MODE: EpsMode = "absolute"
DEFAULT_TARGET_PRESENCE = 0.999

DEFAULT_HOST = "mini"
BUILT_IN_HOSTS = {
    "mini": "mini-host-v3-regressor.safetensors",
    "mini-v2": "mini-host-v2-regressor.safetensors",
    "mini-v3": "mini-host-v3-regressor.safetensors",
    "mini-v3.5": "mini-host-v3.5-regressor.safetensors",
}
"""File of each built-in host. They are small models that this project trained on synthetic tasks,
not Prior Labs' models."""
BUILT_IN_MODELS = {
    "mini": "TabPFN v3",
    "mini-v2": "TabPFN v2",
    "mini-v3": "TabPFN v3",
    "mini-v3.5": "TabPFN v3.5",
}
"""Whose architecture each of them has."""
