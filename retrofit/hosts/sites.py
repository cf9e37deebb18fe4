"""Sites: the places in a host that a retrofit replaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

SiteKind = Literal["attention", "ffn", "norm"]
KINDS: tuple[SiteKind, ...] = ("attention", "ffn", "norm")


@dataclass(frozen=True)
class Site:
    """One attention, feed-forward or norm of a host."""

    name: str
    """Qualified name of the module."""
    kind: SiteKind
    stock_class: str
    """Class of the module in the stock host."""
    owner: str
    """Qualified name of the module whose class is swapped; the site itself or its block."""
    owner_class: str
    """Class of the owner in the stock host."""
    twin_class: str
    """Class of the owner in the patched host."""


def counts(sites: Iterable[Site]) -> dict[SiteKind, int]:
    """How many sites of each kind there are."""
    found = Counter(site.kind for site in sites)
    return {kind: found[kind] for kind in KINDS}
