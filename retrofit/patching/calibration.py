"""The outcome of a calibration: tau per stream, what it was measured on, and its file.

The file is JSON. A digest over its content tells a damaged or an edited one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic.dataclasses import dataclass

from retrofit.config import TargetPresence
from retrofit.errors import CalibrationError
from retrofit.files import atomic
from retrofit.files.digest import json_sha256
from retrofit.files.paths import expand_home
from retrofit.hosts.display import clipped
from retrofit.hosts.report import Spread, StreamReport, TableRecord
from retrofit.words import Variant

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from retrofit.hosts.host import Host, HostDescription

KIND = "oretro calibration"
FORMAT_VERSION = 1
_DIGEST = "content_sha256"
_REMAKE = "write it with 'oretro calibrate HOST --out FILE.json'"


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Calibration:
    """tau of every stream of one variant of one host, with the carriers that it comes from.

    The figures are those of the stock host's own carriers.

    Raises ``pydantic.ValidationError`` (a ``ValueError``) for values outside their range.
    """

    variant: Variant
    target_presence: TargetPresence
    """Presence that the first percentile of each stream's ``|h|^2`` gets."""
    host_name: str
    host_sha256: str
    """sha256 of the stock host's checkpoint file, or of its tensors for a model in memory."""
    streams: list[StreamReport]
    tables: Annotated[list[TableRecord], Field(min_length=1)]
    versions: dict[str, str]
    """Versions of the packages that the carriers were measured with."""

    @field_validator("streams")
    @classmethod
    def _streams_have_names_and_tau(cls, streams: list[StreamReport]) -> list[StreamReport]:
        if len({stream.name for stream in streams}) != len(streams) or not streams:
            msg = "streams: there are none, or one stands twice"
            raise ValueError(msg)
        for stream in streams:
            if stream.tau is None or not 0 < stream.tau < float("inf"):
                msg = f"tau of stream {stream.name!r} is {stream.tau}, not positive and finite"
                raise ValueError(msg)
        return streams

    def __repr__(self) -> str:
        return (
            f"Calibration: {self.variant} on {clipped(self.host_name)}, "
            f"presence {self.target_presence:g}, {len(self.streams)} streams\n"
            f" null radius: {self.null_radius}\n"
            f" tables: {clipped(', '.join(map(str, self.tables)))}"
        )

    @property
    def tau(self) -> dict[str, float]:
        """tau by stream, in units of the squared carrier norm."""
        return {stream.name: stream.tau for stream in self.streams if stream.tau is not None}

    @property
    def null_radius(self) -> Spread:
        """Null radius over the streams."""
        return Spread.of([stream.null_radius for stream in self.streams])

    def require_fits(
        self, host: Host | HostDescription, variant: Variant, *, where: str = "the calibration"
    ) -> None:
        """Check that this is a calibration of ``host``, with the streams of ``variant``.

        Raises:
            CalibrationError: it is not; the message calls it ``where``.
        """
        again = f"calibrate again: oretro calibrate {host.name} --variant {variant} --out FILE.json"
        if host.sha256 != self.host_sha256:
            msg = (
                f"{where} belongs to host {self.host_name!r} (sha256 {self.host_sha256[:12]}), and "
                f"{host.name!r} is another (sha256 {host.sha256[:12]}); {again}"
            )
            raise CalibrationError(msg)
        wanted = set(host.generation.streams(host.architecture_config, variant))
        have = set(self.tau)
        if wanted != have:
            msg = (
                f"{where} was made for variant {self.variant!r} and its {len(have)} streams are "
                f"not the {len(wanted)} of {variant!r} (missing: {_some(wanted - have)}; unknown: "
                f"{_some(have - wanted)}); {again}"
            )
            raise CalibrationError(msg)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        plain: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return plain

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write a ``.json`` file, all of it or nothing, that ``load`` reads back.

        Raises:
            CalibrationError: the name does not end in ``.json``, its folder is missing, or the
                file exists and ``overwrite`` is false; or the disk is full.
        """
        target = require_writable(path, overwrite=overwrite)
        content = {"kind": KIND, "format_version": FORMAT_VERSION, **self.to_dict()}
        content[_DIGEST] = json_sha256(content)
        text = json.dumps(content, indent=1, allow_nan=False)
        atomic.write_atomic(target, text.encode() + b"\n", error=CalibrationError)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read a file that ``save`` wrote.

        Raises:
            CalibrationError: there is no such file, it is damaged or was edited, or it is of
                another kind.
        """
        source = expand_home(path)
        content = _read(source)
        if content.pop("kind", None) != KIND:
            msg = f"{source} is JSON, but no calibration ('kind' is not {KIND!r}); {_REMAKE}"
            raise CalibrationError(msg)
        version = content.pop("format_version", None)
        if version != FORMAT_VERSION:
            msg = (
                f"{source} has format version {version}, and this oretro reads {FORMAT_VERSION}; "
                f"{_REMAKE}"
            )
            raise CalibrationError(msg)
        digest = content.pop(_DIGEST, None)
        if digest != json_sha256({"kind": KIND, "format_version": version, **content}):
            msg = (
                f"{source} is damaged or was edited: its content does not match the sha256 inside "
                f"it; copy it again, or {_REMAKE} (taus of your own: retrofit.patch(tau={{...}}))"
            )
            raise CalibrationError(msg)
        try:
            return _ADAPTER.validate_python(content)
        except ValidationError as error:
            fault = error.errors()[0]
            field = ".".join(str(part) for part in fault["loc"])
            reason = fault["msg"].removeprefix("Value error, ")
            msg = f"{source}, field {field!r}: {reason}; {_REMAKE}"
            raise CalibrationError(msg) from error


def require_writable(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path that ``Calibration.save`` would write, checked before anything is measured.

    Raises:
        CalibrationError: as ``Calibration.save``.
    """
    return atomic.require_writable(path, ".json", overwrite=overwrite, error=CalibrationError)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        msg = f"calibration {path.absolute()} cannot be read ({error.strerror}); {_REMAKE}"
        raise CalibrationError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{path} is cut, damaged, or no calibration: it is not JSON ({error}); {_REMAKE}"
        raise CalibrationError(msg) from error
    if not isinstance(content, dict):
        msg = f"{path} is JSON, but no calibration: it holds a {type(content).__name__}; {_REMAKE}"
        raise CalibrationError(msg)
    return content


def _some(names: set[str]) -> str:
    shown = sorted(names)
    return f"{shown[0]} and {len(shown) - 1} more" if len(shown) > 1 else "".join(shown) or "none"


_ADAPTER = TypeAdapter(Calibration)
