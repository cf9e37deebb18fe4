"""The TabPFN v2.6 generation: the grid, with thinking rows."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic.dataclasses import dataclass as checked_dataclass
from tabpfn.architectures import tabpfn_v2_6
from tabpfn.architectures.tabpfn_v2_6 import (
    AddThinkingRows,
    LowerPrecisionRMSNorm,
    TabPFNBlock,
    TabPFNV2p6,
    TabPFNV2p6Cache,
    TabPFNV2p6Config,
)
from tabpfn.constants import ModelVersion

from retrofit.config import RetrofitConfig
from retrofit.hosts.grid.adapter import GridGeneration, block_members, model_members
from retrofit.hosts.grid.blocks import OGridBlock
from retrofit.hosts.grid.closed import OThinkingRows, ThinkingGrid
from retrofit.hosts.kv_cache import ClosedCache, PresentCache
from retrofit.hosts.patched_model import PatchedModel
from retrofit.hosts.upstream import ENGINE
from retrofit.hosts.v2_6.fingerprints import KNOWN


@checked_dataclass
class OTabPFNV2p6Config(TabPFNV2p6Config):
    """The stock configuration with the settings of the retrofit."""

    oretro: RetrofitConfig | None = None


@dataclass
class PresentV2p6Cache(PresentCache, TabPFNV2p6Cache):
    """The cache of a patched host: every key/value entry carries presence."""


@dataclass
class ClosedV2p6Cache(ClosedCache, PresentV2p6Cache):
    """Key/value entries with presence, and the declared presence of train rows and columns."""


class OBlockV2p6(OGridBlock, TabPFNBlock):
    """Twin of ``TabPFNBlock``."""


class OTabPFNV2p6(PatchedModel, TabPFNV2p6):
    """A TabPFN v2.6 whose blocks are O-twins."""

    cache_class = PresentV2p6Cache


class OThinkingRowsV2p6(OThinkingRows, AddThinkingRows):
    """Twin of ``AddThinkingRows``."""


class OClosedTabPFNV2p6(ThinkingGrid, OTabPFNV2p6):
    """A TabPFN v2.6 that obeys the presence declared around a call (``retrofit.declaring``)."""

    closed_cache_class = ClosedV2p6Cache


class V2p6(GridGeneration):
    """TabPFN v2.6."""

    name = "v2.6"
    architecture_name = "tabpfn_v2_6"
    architecture = tabpfn_v2_6
    versions = (ModelVersion.V2_6,)
    model_class = TabPFNV2p6
    config_class = TabPFNV2p6Config
    patched_config_class = OTabPFNV2p6Config
    patched_classes = {"oa": OTabPFNV2p6, "full": OTabPFNV2p6, "closed": OClosedTabPFNV2p6}
    block = TabPFNBlock
    drops_constant_columns = True
    hidden = 2
    block_members = {TabPFNBlock: block_members(tabpfn_v2_6, LowerPrecisionRMSNorm)}
    twins = {TabPFNBlock: OBlockV2p6}
    closed_twins = {AddThinkingRows: OThinkingRowsV2p6}
    model_members = model_members("_preprocess_and_embed_features", "_preprocess_and_embed_targets")
    fingerprints = KNOWN
    engine_fingerprints = ENGINE
    small = {
        "emsize": 16,
        "nlayers": 1,
        "nhead": 2,
        "features_per_group": 3,
        "num_thinking_rows": 3,
        "num_buckets": 10,
        "max_num_classes": 0,
    }


GENERATION = V2p6()
