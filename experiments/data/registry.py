"""Data sets by name: ``SOURCE:NAME``, or the bare name where one source alone has it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.data.openml import catalogue as openml_catalogue
from experiments.data.packaged import PACKAGED, load_packaged
from experiments.data.settings import LoadSettings
from experiments.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from experiments.data.table import Table


@dataclass(frozen=True)
class Source:
    """A place that data sets come from."""

    prefix: str
    names: Callable[[], Iterable[str]]
    """Names that can be listed without a network."""
    load: Callable[[str, LoadSettings], Table]
    identify: Callable[[str], str | None] | None = None
    """Name of the data set that a text means, None if there is none; by default ``names`` decide"""

    def find(self, text: str) -> str | None:
        """Name of the data set that ``text`` means here, or None."""
        if self.identify is not None:
            return self.identify(text)
        return text if text in self.names() else None


def _load_packaged(name: str, settings: LoadSettings) -> Table:
    return load_packaged(name, settings.columns)


def _load_openml(label: str, settings: LoadSettings) -> Table:
    from experiments.data.openml.source import load_openml

    return load_openml(label, settings)


SOURCES: dict[str, Source] = {
    "packaged": Source("packaged", lambda: PACKAGED, _load_packaged),
    "openml": Source(
        "openml",
        lambda: [task.label for task in openml_catalogue.KNOWN_TASKS.values()],
        _load_openml,
        openml_catalogue.identify,
    ),
}


def resolve(reference: str) -> tuple[Source, str]:
    """Split a reference such as ``packaged:ames``, ``ames`` or ``openml:361235`` in its two parts.

    The name is the source's own: a data set has one, however it is referred to.

    Raises:
        DataError: no source has it; the message lists near names.
    """
    prefix, colon, rest = reference.partition(":")
    if colon and prefix in SOURCES:
        name = SOURCES[prefix].find(rest)
        if name is not None:
            return SOURCES[prefix], name
    else:
        for source in SOURCES.values():
            if reference in source.names():
                return source, reference
    known = [name for source in SOURCES.values() for name in source.names()]
    near = difflib.get_close_matches(rest if colon else reference, known, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "'oretro data list' lists what there is"
    raise DataError(f"no data set is called '{reference}'; {hint}")


def load_table(reference: str, settings: LoadSettings | None = None) -> Table:
    """Return the data set as a ``Table``; ``settings`` say how OpenML is reached.

    Raises:
        DataError: unknown name, or a table that cannot be used.
        DataUnavailableError: it is not on this machine.
    """
    source, name = resolve(reference)
    return source.load(name, settings or LoadSettings())


def available() -> list[tuple[str, str]]:
    """Every (source, name) that can be listed without a network."""
    return [(source.prefix, name) for source in SOURCES.values() for name in source.names()]
