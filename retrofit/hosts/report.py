"""What a patch did to a host: every site, every stream, and what the reader should beware of."""

from __future__ import annotations

import platform
from importlib.metadata import version
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from retrofit.config import RetrofitConfig
from retrofit.hosts.display import clipped, counted, frame
from retrofit.words import KINDS, SiteKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

EPS_SHARE_WARNING = 1e-3
"""Share of an attention's mass above which eps_den is no longer negligible (plan, section 6)."""

RARE_TOKENS_WARNING = 10.0
"""How many times the absence that calibration aims at the smallest carrier may have."""

QUANTILE = 0.01
"""Quantile of a stream's squared norms whose presence calibration sets."""

_WARNINGS_SHOWN = 3
_FROZEN = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=_FROZEN)
class Spread:
    """Smallest, median and largest of a set of figures."""

    min: float
    median: float
    max: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """Spread of at least one value."""
        return cls(min(values), median(values), max(values))

    def __str__(self) -> str:
        return f"{self.min:.3g} to {self.max:.3g}, median {self.median:.3g}"


@dataclass(frozen=True, config=_FROZEN)
class SiteReport:
    """One replaced site."""

    name: str
    kind: SiteKind
    class_before: str
    class_after: str
    """Twin class of the block, or of the bare norm, that runs the site."""
    parameters: int
    dtype: str
    device: str
    calls: int | None = None
    """How often the site ran while the calibration tables were predicted; None for injections and
    statistics, which act only where something is declared NULL."""
    eps_share: float | None = None
    """Largest share of a receiver's attention mass that eps_den took there."""


@dataclass(frozen=True, config=_FROZEN)
class StreamReport:
    """The carriers of one stream and the tau that belongs to them."""

    name: str
    tau: float | None
    """In units of the squared carrier norm; None when presence is forced to 1."""
    tokens: int
    """Active (nonzero) tokens seen on the calibration tables."""
    squared_norm_q01: float
    squared_norm_median: float
    presence_min: float
    presence_q01: float
    presence_median: float
    null_radius: float
    """Carrier norm at which presence is one half, relative to the stream's median norm."""

    @classmethod
    def of(cls, name: str, tau: float | None, squared_norms: np.ndarray) -> StreamReport:
        """Figures of at least one active token; ``squared_norms`` (tokens,) are ``|h|^2``."""
        q01, middle = (float(q) for q in np.quantile(squared_norms, (QUANTILE, 0.5)))
        smallest = float(squared_norms.min())
        p_min, p_q01, p_median = (
            1.0 if tau is None else n / (tau + n) for n in (smallest, q01, middle)
        )
        return cls(
            name=name,
            tau=tau,
            tokens=int(squared_norms.size),
            squared_norm_q01=q01,
            squared_norm_median=middle,
            presence_min=p_min,
            presence_q01=p_q01,
            presence_median=p_median,
            null_radius=0.0 if tau is None else (tau / middle) ** 0.5,
        )


@dataclass(frozen=True, config=_FROZEN)
class TableRecord:
    """A calibration table that was used."""

    name: str
    rows: int
    columns: int
    sha256: str
    """Over the shapes and values of features and target as float64, names left out."""

    def __str__(self) -> str:
        return f"{self.name} ({self.rows}, {self.columns})"


@dataclass(frozen=True, config=_FROZEN)
class PatchReport:
    """The whole retrofit of one host."""

    config: RetrofitConfig
    sites: list[SiteReport]
    streams: list[StreamReport]
    skipped: dict[str, str]
    """Sites that the variant leaves as they are, with the reason."""
    versions: dict[str, str]
    """Versions of the packages that the patch was made with."""
    warnings: list[str]
    tables: list[TableRecord]
    """The tables that the figures come from."""
    tau_tables: list[TableRecord]
    """The tables that tau was calibrated on; empty where it was given, or presence forced to 1."""

    def __repr__(self) -> str:
        what = f"{self.config.variant} on {clipped(self.config.host_name)}, {counted(self.counts)}"
        lines = [f"PatchReport: {what}, {len(self.streams)} streams"]
        lines.append(f"presence: {self.config.presence}")
        if self.null_radius is not None:
            lines.append(f"null radius: {self.null_radius}")
        if self.eps_share is not None:
            lines.append(f"largest share of eps_den: {self.eps_share:.3g}")
        lines += [f"warning: {clipped(text)}" for text in self.warnings[:_WARNINGS_SHOWN]]
        if len(self.warnings) > _WARNINGS_SHOWN:
            lines.append(f"and {len(self.warnings) - _WARNINGS_SHOWN} more warnings")
        return "\n ".join(lines)

    def to_frame(self, part: Literal["sites", "streams"] = "sites") -> pd.DataFrame:
        """One row per site, or per stream, with the fields of its report; None becomes NaN.

        Raises:
            ValueError: ``part`` is neither.
        """
        parts: dict[str, tuple[Sequence[Any], type]] = {
            "sites": (self.sites, SiteReport),
            "streams": (self.streams, StreamReport),
        }
        if part not in parts:
            msg = f"a report has {' and '.join(parts)}, not {part!r}"
            raise ValueError(msg)
        return frame(*parts[part])

    @property
    def counts(self) -> dict[SiteKind, int]:
        """How many sites of each kind were replaced."""
        return {kind: sum(site.kind == kind for site in self.sites) for kind in KINDS}

    @property
    def null_radius(self) -> Spread | None:
        """Null radius over the streams; None when presence is forced to 1."""
        radii = [stream.null_radius for stream in self.streams if stream.tau is not None]
        return Spread.of(radii) if radii else None

    @property
    def eps_share(self) -> float | None:
        """Largest share of attention mass that eps_den took anywhere; None if not measured."""
        shares = [site.eps_share for site in self.sites if site.eps_share is not None]
        return max(shares) if shares else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        plain: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> PatchReport:
        """The inverse of ``to_dict``.

        Raises:
            pydantic.ValidationError: a field is missing, unknown or of the wrong type.
        """
        return _ADAPTER.validate_python(plain)


def package_versions() -> dict[str, str]:
    """Versions that a patch and a calibration are made with."""
    packages = {name: version(name) for name in ("oretro", "tabpfn", "torch")}
    return {"python": platform.python_version(), **packages}


_ADAPTER = TypeAdapter(PatchReport)
