"""The patched TabPFN v3 model: stock's forward over O-twins, with its promises checked."""

from __future__ import annotations

from tabpfn.architectures.tabpfn_v3 import TabPFNV3

from retrofit.hosts.patched_model import PatchedModel
from retrofit.hosts.v3.cache import PresentV3Cache


class OTabPFNV3(PatchedModel, TabPFNV3):
    """A TabPFN v3 whose blocks are O-twins."""

    cache_class = PresentV3Cache
