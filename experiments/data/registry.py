"""Data sets by name: ``SOURCE:NAME``, or the bare name where one source alone has it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.data.packaged import PACKAGED, load_packaged
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
    load: Callable[[str], Table]


SOURCES: dict[str, Source] = {
    "packaged": Source("packaged", lambda: PACKAGED, load_packaged),
}


def resolve(reference: str) -> tuple[Source, str]:
    """Split a reference such as ``packaged:ames`` or ``ames`` into its source and name.

    Raises:
        DataError: no source has it; the message lists near names.
    """
    prefix, colon, rest = reference.partition(":")
    if colon and prefix in SOURCES:
        source = SOURCES[prefix]
        if rest in source.names():
            return source, rest
    else:
        for source in SOURCES.values():
            if reference in source.names():
                return source, reference
    known = [name for source in SOURCES.values() for name in source.names()]
    near = difflib.get_close_matches(rest if colon else reference, known, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)}"
    raise DataError(f"no data set is called '{reference}'; {hint}")


def load_table(reference: str) -> Table:
    """Return the data set as a ``Table``.

    Raises:
        DataError: unknown name, or a table that cannot be used.
        DataUnavailableError: it is not on this machine.
    """
    source, name = resolve(reference)
    return source.load(name)


def available() -> list[tuple[str, str]]:
    """Every (source, name) that can be listed without a network."""
    return [(source.prefix, name) for source in SOURCES.values() for name in source.names()]
