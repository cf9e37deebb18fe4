"""Names of variants: ``oa``, or ``oa@0.99`` for one target presence among several in a sweep.

Imports nothing but the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass

STOCK = "stock"
MARK = "@"


@dataclass(frozen=True)
class VariantName:
    """A variant, and the target presence that its name asks for."""

    base: str
    target_presence: float | None = None
    """None: that of the configuration."""

    def __str__(self) -> str:
        presence = self.target_presence
        return self.base if presence is None else f"{self.base}{MARK}{presence!r}"


def parse(name: str) -> VariantName:
    """Take a name apart.

    Raises:
        ValueError: what follows the mark is not a presence strictly between 0 and 1, or is not
            written in its shortest form, so that one presence could have two names.
    """
    base, mark, text = name.partition(MARK)
    if not mark:
        return VariantName(base)
    try:
        presence = float(text)
    except ValueError:
        presence = float("nan")
    if not 0.0 < presence < 1.0:
        raise ValueError(f"'{name}': '{text}' is not a target presence between 0 and 1")
    parsed = VariantName(base, presence)
    if str(parsed) != name:
        raise ValueError(f"'{name}': write '{parsed}'")
    return parsed


def is_noise(name: str) -> bool:
    """Whether a row of this name is stock scored against itself."""
    return name.startswith(STOCK + MARK)
