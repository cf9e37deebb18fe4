"""Caches of patched v3.5 hosts."""

from __future__ import annotations

from dataclasses import dataclass

from tabpfn.architectures.tabpfn_v3_5 import TabPFNV3p5Cache

from retrofit.hosts.kv_cache import ClosedCache, PresentCache


@dataclass
class PresentV3p5Cache(PresentCache, TabPFNV3p5Cache):
    """The cache of a patched v3.5 host: every key/value entry carries presence."""


@dataclass
class ClosedV3p5Cache(ClosedCache, PresentV3p5Cache):
    """Key/value entries with presence, and the declared presence of train rows and columns."""
