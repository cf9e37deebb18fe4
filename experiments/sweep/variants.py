"""The models that a sweep compares, and the little that a sweep needs of ``retrofit``.

The protocols are what this package relies on; the real classes are ``retrofit.Host`` and
``retrofit.Patched``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from experiments.errors import ConfigError
from experiments.sweep import variant_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from tabpfn import TabPFNRegressor
    from torch import nn

    from experiments.sweep.config import SweepConfig


class HostLike(Protocol):
    """A stock host: its identity, and unfitted regressors on copies of its model."""

    @property
    def name(self) -> str:
        """Name or path that the user gave."""

    @property
    def sha256(self) -> str:
        """Hash of the checkpoint."""

    def regressor(self, **settings: Any) -> TabPFNRegressor:
        """An unfitted regressor whose model belongs to it alone."""


@dataclass(frozen=True, eq=False)
class PatchedVariant:
    """A patched model that is ready to be put under a fitted preprocessing."""

    name: str
    model: nn.Module
    report: Mapping[str, Any] = field(default_factory=dict)
    """``PatchReport.to_dict()``: sites, tau, null radius."""


@dataclass(frozen=True, eq=False)
class Subjects:
    """Everything that is compared on one host."""

    host: HostLike
    built_in: bool
    """Whether the host is the mini host that ships with oretro, by whatever name it was given."""
    patched: tuple[PatchedVariant, ...]
    record_kernels: Callable[[], AbstractContextManager[Mapping[str, int]]]
    """Opens a counter of the attention kernels of patched models."""


def variant_settings(config: SweepConfig, variant: str) -> tuple[tuple[str, str], ...]:
    """What a variant is built with, as it enters the key of a result."""
    if variant == variant_name.STOCK or variant_name.is_noise(variant):
        return ()
    eps = (("eps_den", repr(config.eps_den)), ("eps_mode", config.eps_mode))
    if config.tau is not None:
        return (("tau", repr(config.tau)), *eps)
    presence = variant_name.parse(variant).target_presence or config.target_presence
    return (("target_presence", repr(presence)), *eps)


def load_subjects(config: SweepConfig) -> Subjects:
    """Load the host and patch one copy of it per variant.

    Raises:
        retrofit.errors.RetrofitError: the host cannot be found or cannot be patched.
        ConfigError: the host is a patched checkpoint, which has no stock behaviour to compare with.
    """
    import retrofit
    from retrofit.patching.sources import built_in_name

    host = retrofit.load_host(config.host)
    if isinstance(host, retrofit.Patched):
        raise ConfigError(
            f"host '{config.host}' is a patched checkpoint; give the stock checkpoint that it was "
            "made from, the variants are patched from it"
        )
    patched = []
    for variant in config.variants:
        if variant == "stock":
            continue
        result = retrofit.patch(host, config.patch_settings(variant))
        # A regressor's own copy: casting or moving it leaves `result` alone.
        model = result.regressor().model_path.model
        patched.append(PatchedVariant(variant, model, result.report.to_dict()))
    built_in = built_in_name(host.sha256) is not None
    return Subjects(host, built_in, tuple(patched), retrofit.ops.record_kernels)
