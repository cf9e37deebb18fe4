"""The TabPFN v2.5 generation: the grid, with thinking rows."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic.dataclasses import dataclass as checked_dataclass
from tabpfn.architectures import tabpfn_v2_5
from tabpfn.architectures.tabpfn_v2_5 import (
    AddThinkingRows,
    LowerPrecisionLayerNorm,
    TabPFNBlock,
    TabPFNV2p5,
    TabPFNV2p5Cache,
    TabPFNV2p5Config,
)
from tabpfn.constants import ModelVersion

from retrofit.config import RetrofitConfig
from retrofit.hosts.grid.adapter import GridGeneration, block_members, model_members
from retrofit.hosts.grid.blocks import OGridBlock
from retrofit.hosts.grid.closed import OThinkingRows, ThinkingGrid
from retrofit.hosts.kv_cache import ClosedCache, PresentCache
from retrofit.hosts.patched_model import PatchedModel
from retrofit.hosts.upstream import ENGINE
from retrofit.hosts.v2_5.fingerprints import KNOWN


@checked_dataclass
class OTabPFNV2p5Config(TabPFNV2p5Config):
    """The stock configuration with the settings of the retrofit."""

    oretro: RetrofitConfig | None = None


@dataclass
class PresentV2p5Cache(PresentCache, TabPFNV2p5Cache):
    """The cache of a patched host: every key/value entry carries presence."""


@dataclass
class ClosedV2p5Cache(ClosedCache, PresentV2p5Cache):
    """Key/value entries with presence, and the declared presence of train rows and columns."""


class OBlockV2p5(OGridBlock, TabPFNBlock):
    """Twin of ``TabPFNBlock``."""


class OTabPFNV2p5(PatchedModel, TabPFNV2p5):
    """A TabPFN v2.5 whose blocks are O-twins."""

    cache_class = PresentV2p5Cache


class OThinkingRowsV2p5(OThinkingRows, AddThinkingRows):
    """Twin of ``AddThinkingRows``."""


class OClosedTabPFNV2p5(ThinkingGrid, OTabPFNV2p5):
    """A TabPFN v2.5 that obeys the presence declared around a call (``retrofit.declaring``)."""

    closed_cache_class = ClosedV2p5Cache


class V2p5(GridGeneration):
    """TabPFN v2.5."""

    name = "v2.5"
    architecture_name = "tabpfn_v2_5"
    early_names = ("base", "tabpfn_v2_5")
    architecture = tabpfn_v2_5
    versions = (ModelVersion.V2_5,)
    model_class = TabPFNV2p5
    config_class = TabPFNV2p5Config
    patched_config_class = OTabPFNV2p5Config
    patched_classes = {"oa": OTabPFNV2p5, "full": OTabPFNV2p5, "closed": OClosedTabPFNV2p5}
    block = TabPFNBlock
    drops_constant_columns = True
    hidden = 2
    block_members = {TabPFNBlock: block_members(tabpfn_v2_5, LowerPrecisionLayerNorm)}
    twins = {TabPFNBlock: OBlockV2p5}
    closed_twins = {AddThinkingRows: OThinkingRowsV2p5}
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


GENERATION = V2p5()
