"""The patched v3 as an architecture that tabpfn itself can build and load.

``import retrofit`` registers this module with tabpfn; a patched file then opens in a plain
``tabpfn.TabPFNRegressor(model_path=...)``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic.dataclasses import dataclass
from tabpfn.architectures import register_architecture, tabpfn_v3
from tabpfn.architectures.tabpfn_v3 import TabPFNV3, TabPFNV3Config

from retrofit.config import RetrofitConfig
from retrofit.errors import CheckpointError
from retrofit.files.checkpoint import PATCHED_ARCHITECTURE
from retrofit.hosts.fingerprint import require_known
from retrofit.hosts.v3 import adapter as v3
from retrofit.hosts.v3.fingerprints import KNOWN

if TYPE_CHECKING:
    from tabpfn.architectures.interface import ArchitectureConfig


@dataclass
class OTabPFNV3Config(TabPFNV3Config):
    """The stock configuration with the settings of the retrofit."""

    oretro: RetrofitConfig | None = None


def patched_config(stock: TabPFNV3Config, retrofit: RetrofitConfig) -> OTabPFNV3Config:
    """The configuration of a stock host patched with ``retrofit``."""
    fields = {field.name: getattr(stock, field.name) for field in dataclasses.fields(stock)}
    return OTabPFNV3Config(**{**fields, "oretro": retrofit})


def stock_config(config: TabPFNV3Config) -> TabPFNV3Config:
    """The configuration of the stock host behind a patched one."""
    names = [field.name for field in dataclasses.fields(TabPFNV3Config)]
    return TabPFNV3Config(**{name: getattr(config, name) for name in names})


def parse_config(config: dict[str, Any]) -> tuple[OTabPFNV3Config, dict[str, Any]]:
    """Part of tabpfn's architecture protocol: the configuration and its unknown keys.

    Raises:
        CheckpointError: the settings of the retrofit are missing or invalid.
    """
    try:
        parsed = OTabPFNV3Config(**config)
    except ValidationError as error:
        msg = f"the configuration of the patched checkpoint is invalid: {error}"
        raise CheckpointError(msg) from error
    if parsed.oretro is None:
        msg = "the patched checkpoint holds no settings of the retrofit ('oretro' in its config)"
        raise CheckpointError(msg)
    return parsed, parsed.get_unused_config(config)


def get_architecture(config: ArchitectureConfig) -> TabPFNV3:
    """Part of tabpfn's architecture protocol: a patched model whose weights are still to come.

    Raises:
        UnsupportedHostError: the installed tabpfn is not one that the twins were written for.
    """
    assert isinstance(config, OTabPFNV3Config)
    assert config.oretro is not None
    require_known(KNOWN)
    model: TabPFNV3 = tabpfn_v3.get_architecture(config)
    try:
        v3.swap(model, config.oretro)
    except KeyError as error:
        msg = f"the patched checkpoint has no tau for the stream {error}"
        raise CheckpointError(msg) from error
    return model


def register() -> None:
    """Make tabpfn know the patched architecture; safe to call again."""
    import sys

    register_architecture(PATCHED_ARCHITECTURE, sys.modules[__name__])
