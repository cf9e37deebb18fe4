"""The TabPFN v3 generation."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass
from tabpfn.architectures import tabpfn_v3
from tabpfn.architectures.tabpfn_v3 import (
    ColumnAggregator,
    CrossAttentionBlock,
    ICLTransformerBlock,
    InducedSelfAttentionBlock,
    SoftmaxScalingMLP,
    TabPFNV3,
    TabPFNV3Config,
    TransformerBlock,
    _DtypeMatchingRMSNorm,
)
from tabpfn.constants import ModelVersion
from tabpfn.preprocessing.torch.torch_standard_scaler import TorchStandardScaler
from torch import nn
from typing_extensions import override

from retrofit.config import RetrofitConfig
from retrofit.hosts.generation import Member
from retrofit.hosts.prenorm.adapter import PrenormGeneration, block_members
from retrofit.hosts.prenorm.specimens import SMALL
from retrofit.hosts.upstream import ENGINE
from retrofit.hosts.v3.blocks import (
    OColumnAggregator,
    OCrossAttentionBlock,
    OICLTransformerBlock,
    OInducedBlock,
    ORMSNorm,
    OSoftmaxScaling,
    OTransformerBlock,
)
from retrofit.hosts.v3.fingerprints import KNOWN
from retrofit.hosts.v3.model import OClosedTabPFNV3, OTabPFNV3

if TYPE_CHECKING:
    from retrofit.hosts.cost import Size


@dataclass
class OTabPFNV3Config(TabPFNV3Config):
    """The stock configuration with the settings of the retrofit."""

    oretro: RetrofitConfig | None = None


class V3(PrenormGeneration):
    """TabPFN v3."""

    name = "v3"
    architecture_name = "tabpfn_v3"
    architecture = tabpfn_v3
    versions = (ModelVersion.V3,)
    model_class = TabPFNV3
    config_class = TabPFNV3Config
    patched_config_class = OTabPFNV3Config
    patched_classes = {"oa": OTabPFNV3, "full": OTabPFNV3, "closed": OClosedTabPFNV3}
    block_members = block_members(tabpfn_v3)
    twins = {
        CrossAttentionBlock: OCrossAttentionBlock,
        TransformerBlock: OTransformerBlock,
        ICLTransformerBlock: OICLTransformerBlock,
        _DtypeMatchingRMSNorm: ORMSNorm,
    }
    closed_twins = {
        InducedSelfAttentionBlock: OInducedBlock,
        ColumnAggregator: OColumnAggregator,
        SoftmaxScalingMLP: OSoftmaxScaling,
    }
    model_members = (
        Member("standard_scaler", "statistic", TorchStandardScaler, "statistics of present rows"),
        Member("_group_features", "statistic", FunctionType, "groups of present columns"),
        Member("_prepare_y", "statistic", FunctionType, "target mean of present rows"),
        Member("x_embed", "injection", nn.Linear, "gated cells"),
        Member("col_y_encoder", "injection", nn.Linear, "gated column targets"),
        Member("icl_y_encoder", "injection", nn.Linear, "gated row targets"),
        Member("output_projection", "injection", nn.Sequential),
    )
    fingerprints = KNOWN
    engine_fingerprints = ENGINE
    small = {**SMALL, "max_num_classes": 0}
    stand_in_modules = ("x_embed", "standard_scaler")

    @override
    def _rotates(self, config: TabPFNV3Config) -> bool:
        return config.use_rope

    @override
    def _ends_cost(self, config: TabPFNV3Config, size: Size) -> float:
        row_width = config.embed_dim * config.feat_agg_num_cls_tokens
        return size.test * config.ff_factor * row_width * (row_width + config.num_buckets)

    @override
    def released_config(self) -> TabPFNV3Config:
        return TabPFNV3Config(max_num_classes=0, num_buckets=5000)


GENERATION = V3()
