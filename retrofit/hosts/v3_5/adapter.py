"""The TabPFN v3.5 generation: one architecture for both tasks, of which regression is served."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass
from tabpfn.architectures import tabpfn_v3_5
from tabpfn.architectures.tabpfn_v3_5 import (
    MLP,
    ColumnAggregator,
    CrossAttentionBlock,
    FourierPlusMetadataFeatureGroupEmbedder,
    ICLTransformerBlock,
    InducedSelfAttentionBlock,
    SoftmaxScalingMLP,
    TabPFNV3p5,
    TabPFNV3p5Config,
    TransformerBlock,
    _DtypeMatchingRMSNorm,
    _PreHeadMLP,
)
from tabpfn.constants import ModelVersion
from tabpfn.preprocessing.torch.torch_standard_scaler import TorchStandardScaler
from torch import nn
from typing_extensions import override

from retrofit.config import RetrofitConfig
from retrofit.hosts.generation import Member
from retrofit.hosts.prenorm.adapter import PrenormGeneration, block_members
from retrofit.hosts.prenorm.specimens import SMALL, pre_head
from retrofit.hosts.stages import Stage
from retrofit.hosts.upstream import ENGINE
from retrofit.hosts.v3_5.blocks import (
    OColumnAggregator,
    OCrossAttentionBlock,
    OICLTransformerBlock,
    OInducedBlock,
    OPreHeadMLP,
    ORMSNorm,
    OSoftmaxScaling,
    OTransformerBlock,
)
from retrofit.hosts.v3_5.config import read_config
from retrofit.hosts.v3_5.fingerprints import KNOWN
from retrofit.hosts.v3_5.model import TASK, OClosedTabPFNV3p5, OTabPFNV3p5

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from retrofit.hosts.anatomy import Specimen
    from retrofit.hosts.cost import Size

_HEAD = "heads.mlp_regression"
_OTHER_HEAD = "heads.mlp_classification"
_CLASSIFICATION = "only the classification head runs it"
_NO_CARRIERS = "norms queries or keys, and those of a NULL token stay zero or count for nothing"
_MEMBERS_OF_HEAD = (Member("mlp", "ffn", MLP), Member("norm", "norm", _DtypeMatchingRMSNorm))


@dataclass
class OTabPFNV3p5Config(TabPFNV3p5Config):
    """The stock configuration with the settings of the retrofit."""

    oretro: RetrofitConfig | None = None


class V3p5(PrenormGeneration):
    """TabPFN v3.5."""

    name = "v3.5"
    architecture_name = "tabpfn_v3_5"
    architecture = tabpfn_v3_5
    versions = (ModelVersion.V3_5, ModelVersion.V3_5_FAST)
    model_class = TabPFNV3p5
    config_class = TabPFNV3p5Config
    patched_config_class = OTabPFNV3p5Config
    patched_classes = {"oa": OTabPFNV3p5, "full": OTabPFNV3p5, "closed": OClosedTabPFNV3p5}
    block_members = {
        **block_members(tabpfn_v3_5),
        _PreHeadMLP: _MEMBERS_OF_HEAD,
    }
    twins = {
        CrossAttentionBlock: OCrossAttentionBlock,
        TransformerBlock: OTransformerBlock,
        ICLTransformerBlock: OICLTransformerBlock,
        _PreHeadMLP: OPreHeadMLP,
        _DtypeMatchingRMSNorm: ORMSNorm,
    }
    closed_twins = {
        InducedSelfAttentionBlock: OInducedBlock,
        ColumnAggregator: OColumnAggregator,
        SoftmaxScalingMLP: OSoftmaxScaling,
    }
    model_members = (
        Member("standard_scaler", "statistic", TorchStandardScaler, "statistics of present rows"),
        Member("_preprocess_raw", "statistic", FunctionType, "ranks among present rows"),
        Member("_group_features", "statistic", FunctionType, "groups of present columns"),
        Member("_prepare_y", "statistic", FunctionType, "target mean of present rows"),
        Member("x_embed", "injection", FourierPlusMetadataFeatureGroupEmbedder, "gated cells"),
        Member("col_y_layernorm", "injection", nn.LayerNorm, "gated column targets"),
        Member("icl_y_layernorm", "injection", nn.LayerNorm, "gated row targets"),
        Member("heads.output_projection", "injection", nn.Linear),
    )
    fingerprints = KNOWN
    engine_fingerprints = ENGINE
    # A classification head is part of every model.
    small = {**SMALL, "max_num_classes": 2}
    stand_in_modules = ("x_embed", "standard_scaler")
    cells = "x_embed.layernorm"
    readout = "heads.output_projection"

    @override
    def blocks(self, config: TabPFNV3p5Config) -> Iterator[tuple[str, type[Any]]]:
        yield from super().blocks(config)
        yield _HEAD, _PreHeadMLP

    @override
    def skipped(self, config: TabPFNV3p5Config) -> dict[str, str]:
        found = {}
        for block, stock in self.blocks(config):
            for member in self.block_members[stock]:
                if member.kind == "attention":
                    for norm in ("q_norm", "k_norm"):
                        found[f"{block}.{member.attribute}.{norm}"] = _NO_CARRIERS
        parts = ("", *(f".{member.attribute}" for member in _MEMBERS_OF_HEAD))
        found |= {f"{_OTHER_HEAD}{part}": _CLASSIFICATION for part in parts}
        if config.decoder_use_softmax_scaling:
            found["heads.many_class_decoder.softmax_scaling_layer"] = _CLASSIFICATION
        return found

    @override
    def specimens(self, model: Any) -> Iterator[Specimen]:
        yield from super().specimens(model)
        head = model.get_submodule(_HEAD)
        if head.gates.full:
            yield pre_head(head)

    @override
    def stages(self, config: TabPFNV3p5Config) -> list[Stage]:
        head = Stage(_HEAD, _HEAD, "output", lambda places: places.test, "before the head")
        return [*super().stages(config), head]

    @override
    def run(self, model: Any, x_RBC: Tensor, y_NB: Tensor, **options: Any) -> Any:
        return model(x_RBC, y_NB, **{**TASK, **options})

    @override
    def task_of(self, model: Any) -> str:
        return TASK["task_type"]

    @override
    def config_of(self, model: Any) -> TabPFNV3p5Config:
        return read_config(model)

    @override
    def refusal(self, config: Mapping[str, Any]) -> str:
        return ""

    @override
    def released_config(self) -> TabPFNV3p5Config:
        return TabPFNV3p5Config(max_num_classes=160, num_buckets=5000)

    @override
    def _rotates(self, config: TabPFNV3p5Config) -> bool:
        return True

    @override
    def _ends_cost(self, config: TabPFNV3p5Config, size: Size) -> float:
        group, width = config.feature_group_size, config.embed_dim
        features = 2 * config.fourier_encoding_num_frequencies
        features += 2 * group * (1 + config.cell_ecdf_num_frequencies)
        row_width = width * config.feat_agg_num_cls_tokens
        head = row_width * (2 * config.ff_factor * row_width + config.num_buckets)
        return float(size.rows * size.columns * features * width + size.test * head)


GENERATION = V3p5()
