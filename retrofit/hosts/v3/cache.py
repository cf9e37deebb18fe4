"""Caches of patched v3 hosts: with presence, and with what was NULL when they were built."""

from __future__ import annotations

from dataclasses import dataclass

from tabpfn.architectures.tabpfn_v3 import TabPFNV3Cache

from retrofit.hosts.kv_cache import ClosedCache, PresentCache


@dataclass
class PresentV3Cache(PresentCache, TabPFNV3Cache):
    """The cache of a patched v3 host: every key/value entry carries presence."""


@dataclass
class ClosedV3Cache(ClosedCache, PresentV3Cache):
    """Key/value entries with presence, and the declared presence of train rows and columns."""
