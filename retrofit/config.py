"""What a retrofit is: the settings that turn a stock host into a patched one."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import ConfigDict, field_validator, model_validator
from pydantic.dataclasses import dataclass

Variant = Literal["oa", "full", "closed"]
EpsMode = Literal["absolute", "relative"]
PresenceMode = Literal["calibrated", "fixed", "one"]

VARIANTS: tuple[Variant, ...] = ("oa", "full", "closed")
DEFAULT_HOST = "mini"
BUILT_IN_HOSTS = {
    "mini": "mini-host-v3-regressor.safetensors",
    "mini-v3": "mini-host-v3-regressor.safetensors",
}
"""File of each built-in host. They are small models that this project trained on synthetic tasks,
not Prior Labs' models."""
FORMAT_VERSION = 1
DEFAULT_EPS_DEN = 1e-8
DEFAULT_TARGET_PRESENCE = 0.999


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class RetrofitConfig:
    """Everything that distinguishes a patched host from its stock host, as plain JSON types.

    Raises ``pydantic.ValidationError`` (a ``ValueError``) for values outside their range.
    """

    variant: Variant
    """`oa`: attention only; `full`: attention, feed-forward and normalisation; `closed`: `full`,
    and everything else through which a declared NULL row or column could act."""
    presence: PresenceMode
    """How tau was found; `one` forces every presence to 1 (the wiring proof)."""
    tau: dict[str, float]
    """tau per stream, in units of the squared carrier norm; empty for `one`."""
    eps_den: float = DEFAULT_EPS_DEN
    """Mass of the attention's value-less extra source; 0 switches it off."""
    eps_mode: EpsMode = "absolute"
    """Whether `eps_den` is on the raw scale or relative to the largest present term."""
    target_presence: float | None = None
    """Presence of the calibration quantile, when `presence` is `calibrated`."""
    host_name: str = ""
    """Name of the stock host, as it was asked for."""
    host_sha256: str = ""
    """sha256 of the stock host's checkpoint file, or of its tensors for a model in memory."""
    weights_sha256: str = ""
    """Digest over all tensors of the state dict, checked whenever a file is loaded."""
    format_version: int = FORMAT_VERSION

    @field_validator("tau")
    @classmethod
    def _tau_is_positive(cls, tau: dict[str, float]) -> dict[str, float]:
        for stream, value in tau.items():
            if not (math.isfinite(value) and value > 0):
                msg = f"tau of stream {stream!r} is {value}; it must be positive and finite"
                raise ValueError(msg)
        return tau

    @field_validator("eps_den")
    @classmethod
    def _eps_is_not_negative(cls, eps_den: float) -> float:
        if not (math.isfinite(eps_den) and eps_den >= 0):
            msg = f"eps_den is {eps_den}; it must be zero or positive, and finite"
            raise ValueError(msg)
        return eps_den

    @field_validator("target_presence")
    @classmethod
    def _target_is_a_presence(cls, target: float | None) -> float | None:
        if target is not None and not 0 < target < 1:
            msg = f"target_presence is {target}; it must lie strictly between 0 and 1"
            raise ValueError(msg)
        return target

    @field_validator("format_version")
    @classmethod
    def _format_is_known(cls, found: int) -> int:
        if found != FORMAT_VERSION:
            msg = f"format version {found} is unknown; this oretro reads {FORMAT_VERSION}"
            raise ValueError(msg)
        return found

    @model_validator(mode="after")
    def _one_needs_no_tau(self) -> RetrofitConfig:
        if (self.presence == "one") != (not self.tau):
            msg = "tau is given exactly when presence is not 'one'"
            raise ValueError(msg)
        return self
