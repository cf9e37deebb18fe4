"""What a retrofit is: the settings that a patch is asked for, and those that it ends up with.

Imports no torch: the library, configuration files and the command line read the same fields.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.dataclasses import dataclass

from retrofit.errors import VariantError
from retrofit.words import (
    DEFAULT_EPS_DEN,
    DEFAULT_EPS_MODE,
    DEFAULT_TARGET_PRESENCE,
    VARIANTS,
    EpsMode,
    PresenceMode,
    Variant,
)

FORMAT_VERSION = 2

MOST = 1e30
"""Beyond any tau or eps_den that means something, and well inside float32."""
Tau = Annotated[float, Field(gt=0, le=MOST)]
"""Squared carrier norm at which presence is one half."""
TargetPresence = Annotated[float, Field(gt=0, lt=1)]
"""Presence of the smallest legitimate carriers, from which tau is calibrated."""
EpsDen = Annotated[float, Field(ge=0, le=MOST)]
"""Mass of the attention's value-less extra source; 0 switches it off."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PatchSettings:
    """What a patch is asked for; ``PatchSettings.of`` says what is wrong in a ``VariantError``.

    At most one of ``tau``, ``presence`` and ``target_presence`` is given: each settles every
    presence.
    """

    variant: Variant
    tau: Any = None
    """Squared carrier norm at which presence is one half: a number for all streams, a mapping by
    stream, or a ``Calibration`` of the host; None to calibrate it."""
    presence: Literal["one"] | None = None
    """``one`` forces every presence to 1: with ``eps_den=0`` the patched host then equals stock up
    to rounding, which proves the wiring."""
    target_presence: TargetPresence | None = None
    """Presence that calibration gives to the first percentile of each stream; None for 0.999."""
    eps_den: EpsDen = DEFAULT_EPS_DEN
    """Mass of the attention's value-less extra source."""
    eps_mode: EpsMode = DEFAULT_EPS_MODE
    """Whether ``eps_den`` is on the raw scale or relative to the largest present term."""

    @field_validator("presence", mode="before")
    @classmethod
    def _presence_is_one(cls, presence: Any) -> Any:
        if presence not in (None, "one"):
            msg = "leave it out, or give 'one' to force every presence to 1"
            raise ValueError(msg)
        return presence

    @model_validator(mode="after")
    def _one_source_of_presence(self) -> PatchSettings:
        names = ("tau", "presence", "target_presence")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            msg = (
                f"{' and '.join(given)} exclude each other: each of them settles every presence; "
                "give one"
            )
            raise ValueError(msg)
        return self

    @classmethod
    def of(cls, variant: Any, **settings: Any) -> PatchSettings:
        """Validated settings.

        Raises:
            VariantError: a setting is unknown, of another type, out of range, or contradicts one.
        """
        require_variant(variant)
        try:
            return cls(variant=variant, **settings)
        except ValidationError as error:
            raise VariantError(explained(error)) from error

    @property
    def calibrated_presence(self) -> float:
        """The target of a calibration."""
        given = self.target_presence
        return DEFAULT_TARGET_PRESENCE if given is None else given


def require_variant(variant: Any) -> None:
    """Check a variant's name.

    Raises:
        VariantError: there is no such variant.
    """
    if variant not in VARIANTS:
        msg = f"there is no variant {variant!r}; choose one of {', '.join(VARIANTS)}"
        raise VariantError(msg)


def explained(error: ValidationError) -> str:
    """What a validation found, in one line that names each field and what it was given."""
    parts = []
    for item in error.errors():
        name = ".".join(str(part) for part in item["loc"])
        given = "" if isinstance(item["input"], dict) else f" is {item['input']!r}"
        reason = item["msg"].removeprefix("Value error, ")
        parts.append(f"{name}{given}: {reason}" if name else reason)
    return "; ".join(parts)


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
    tau: dict[str, Tau]
    """tau per stream, in units of the squared carrier norm; empty for `one`."""
    eps_den: EpsDen = DEFAULT_EPS_DEN
    """Mass of the attention's value-less extra source; 0 switches it off."""
    eps_mode: EpsMode = DEFAULT_EPS_MODE
    """Whether `eps_den` is on the raw scale or relative to the largest present term."""
    target_presence: TargetPresence | None = None
    """Presence of the calibration quantile, when `presence` is `calibrated`."""
    host_name: str = ""
    """Name of the stock host, as it was asked for."""
    host_sha256: str = ""
    """sha256 of the stock host's checkpoint file, or of its tensors for a model in memory."""
    weights_sha256: str = ""
    """Digest over the weights of a file, checked whenever it is loaded; empty in memory."""
    format_version: int = FORMAT_VERSION

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
