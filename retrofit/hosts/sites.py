"""Sites: the places in a host that a retrofit replaces."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retrofit.words import KINDS, SiteKind, Variant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from retrofit.words import Variant

SOURCES_COUNTED = "number of present sources"
"""What `closed` does where scores are scaled by the number of sources."""
POSITIONS_BY_RANK = "positions by rank"
"""What `closed` does where tokens are rotated by their positions."""
VARIANT_KINDS: dict[Variant, tuple[SiteKind, ...]] = {
    "oa": ("attention",),
    "full": ("attention", "ffn", "norm"),
    "closed": KINDS,
}


@dataclass(frozen=True)
class Site:
    """One place of a host that a retrofit replaces.

    An injection adds something to tokens, whoever they are: an embedding, a position, a bias. A
    statistic reads all tokens of an axis at once.
    """

    name: str
    """Path of the module, parameter or method inside the host."""
    kind: SiteKind
    stock_class: str
    """Class of what the name leads to in the stock host."""
    owner: str
    """Qualified name of the module whose class is swapped: the site itself, its block, or the
    model, whose name is empty."""
    owner_class: str
    """Class of the owner in the stock host."""
    twin_class: str
    """Class of the owner in the patched host."""
    change: str = ""
    """What `closed` does at an injection or a statistic, in words."""


def counts(sites: Iterable[Site]) -> dict[SiteKind, int]:
    """How many sites of each kind there are."""
    found = Counter(site.kind for site in sites)
    return {kind: found[kind] for kind in KINDS}
