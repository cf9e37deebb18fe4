"""The TabPFN v3 generation: where its sites are, and what it costs.

Shapes: R rows, C columns, Q CLS tokens, I inducing vectors.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from pydantic.dataclasses import dataclass
from tabpfn.architectures import tabpfn_v3
from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution
from tabpfn.architectures.tabpfn_v3 import MLP as V3MLP
from tabpfn.architectures.tabpfn_v3 import (
    Attention,
    ColumnAggregator,
    CrossAttention,
    CrossAttentionBlock,
    ICLAttention,
    ICLTransformerBlock,
    InducedSelfAttentionBlock,
    RotaryEmbedding,
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
from retrofit.hosts.cost import PADDED, Cost, Size, block_overhead
from retrofit.hosts.generation import Generation, Member
from retrofit.hosts.sites import POSITIONS_BY_RANK, SOURCES_COUNTED
from retrofit.hosts.stages import CELLS, Places, Stage
from retrofit.hosts.v3 import specimens
from retrofit.hosts.v3.blocks import (
    OCrossAttentionBlock,
    OICLTransformerBlock,
    ORMSNorm,
    OTransformerBlock,
)
from retrofit.hosts.v3.closed import OClosedTabPFNV3
from retrofit.hosts.v3.closed_blocks import OColumnAggregator, OInducedBlock, OSoftmaxScaling
from retrofit.hosts.v3.fingerprints import ENGINE, KNOWN
from retrofit.hosts.v3.looks import looks
from retrofit.hosts.v3.model import OTabPFNV3

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrofit.hosts.anatomy import Specimen
    from retrofit.hosts.stages import Look

_NORM = _DtypeMatchingRMSNorm
_EMBEDDER = "feature_distribution_embedder.layers"


@dataclass
class OTabPFNV3Config(TabPFNV3Config):
    """The stock configuration with the settings of the retrofit."""

    oretro: RetrofitConfig | None = None


class V3(Generation):
    """TabPFN v3."""

    name = "v3"
    architecture_name = "tabpfn_v3"
    architecture = tabpfn_v3
    versions = (ModelVersion.V3,)
    model_class = TabPFNV3
    config_class = TabPFNV3Config
    patched_config_class = OTabPFNV3Config
    patched_classes = {"oa": OTabPFNV3, "full": OTabPFNV3, "closed": OClosedTabPFNV3}
    block_members = {
        CrossAttentionBlock: (
            Member("attn", "attention", CrossAttention),
            Member("mlp", "ffn", V3MLP),
            Member("layernorm_q", "norm", _NORM),
            Member("layernorm_kv", "norm", _NORM),
            Member("layernorm2", "norm", _NORM),
        ),
        TransformerBlock: (
            Member("attention", "attention", Attention),
            Member("mlp", "ffn", V3MLP),
            Member("layernorm", "norm", _NORM),
            Member("layernorm_mlp", "norm", _NORM),
        ),
        ICLTransformerBlock: (
            Member("icl_attention", "attention", ICLAttention),
            Member("mlp", "ffn", V3MLP),
            Member("layernorm", "norm", _NORM),
            Member("layernorm_mlp", "norm", _NORM),
        ),
    }
    twins = {
        CrossAttentionBlock: OCrossAttentionBlock,
        TransformerBlock: OTransformerBlock,
        ICLTransformerBlock: OICLTransformerBlock,
        _NORM: ORMSNorm,
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
    small = specimens.SMALL
    stand_in_modules = ("x_embed", "standard_scaler")

    @override
    def blocks(self, config: TabPFNV3Config) -> Iterator[tuple[str, type[Any]]]:
        for layer in range(config.dist_embed_num_blocks):
            for half in (1, 2):
                name = f"{_EMBEDDER}.{layer}.cross_attn_block{half}"
                yield name, CrossAttentionBlock
        for layer in range(config.feat_agg_num_blocks):
            yield f"column_aggregator.blocks.{layer}", TransformerBlock
        for layer in range(config.nlayers):
            yield f"icl_blocks.{layer}", ICLTransformerBlock

    @override
    def bare_norms(self, config: TabPFNV3Config) -> Iterator[tuple[str, type[Any]]]:
        yield "column_aggregator.out_ln", _NORM
        yield "output_norm", _NORM

    @override
    def closed_modules(self, config: TabPFNV3Config) -> Iterator[tuple[str, type[Any]]]:
        for layer in range(config.dist_embed_num_blocks):
            name = f"{_EMBEDDER}.{layer}"
            yield name, InducedSelfAttentionBlock
            yield f"{name}.cross_attn_block1.attn.softmax_scaling_layer", SoftmaxScalingMLP
        yield "column_aggregator", ColumnAggregator
        for layer in range(config.nlayers):
            yield f"icl_blocks.{layer}.icl_attention.softmax_scaling_layer", SoftmaxScalingMLP

    @override
    def closed_members(self, config: TabPFNV3Config, owner: type[Any]) -> Iterator[Member]:
        if owner is InducedSelfAttentionBlock:
            yield Member("inducing_vectors", "injection", nn.Parameter, "gated inducing vectors")
        elif owner is ColumnAggregator:
            yield Member("cls_tokens", "injection", nn.Parameter, "gated CLS tokens")
            if config.use_rope:
                yield Member("rope", "injection", RotaryEmbedding, POSITIONS_BY_RANK)
        else:
            yield Member("", "statistic", owner, SOURCES_COUNTED)

    @override
    def specimens(self, model: Any) -> Iterator[Specimen]:
        return specimens.specimens(model)

    @override
    def stages(self, config: TabPFNV3Config) -> list[Stage]:
        cls = torch.ones(config.feat_agg_num_cls_tokens, dtype=torch.bool)
        induced = torch.ones(config.dist_embed_num_inducing_points, dtype=torch.bool)

        def cells(places: Places) -> torch.Tensor:
            return places.rows[:, None] & places.columns

        def inducing_states(places: Places) -> torch.Tensor:
            return places.columns[:, None] & induced

        def rows_of_columns(places: Places) -> torch.Tensor:
            return places.columns[:, None] & places.rows

        def tokens_of_rows(places: Places) -> torch.Tensor:
            return places.rows[:, None] & torch.cat((cls, places.columns))

        def cls_of_rows(places: Places) -> torch.Tensor:
            return places.rows[:, None] & cls

        def rows(places: Places) -> torch.Tensor:
            return places.rows

        found = [Stage(CELLS, "feature_distribution_embedder", "input", cells, CELLS)]
        for layer in range(config.dist_embed_num_blocks):
            block, label = f"{_EMBEDDER}.{layer}.cross_attn_block", f"embedder {layer}"
            found += [
                Stage(f"{block}1", f"{block}1", "output", inducing_states, f"{label} induce", True),
                Stage(f"{block}2", f"{block}2", "output", rows_of_columns, f"{label} read"),
            ]
        last = config.feat_agg_num_blocks - 1
        for layer in range(last):
            name = f"column_aggregator.blocks.{layer}"
            if layer == 0:
                cls_tokens = "column_aggregator.cls_tokens"
                found.append(Stage(cls_tokens, name, "input", tokens_of_rows, "CLS tokens"))
            found.append(Stage(name, name, "output", tokens_of_rows, f"aggregator {layer}"))
        # The last block is run by a method of its own, which hooks do not see.
        out_ln = "column_aggregator.out_ln"
        name, label = f"column_aggregator.blocks.{last}", f"aggregator {last}"
        found += [
            Stage(name, out_ln, "input", cls_of_rows, label),
            Stage(out_ln, out_ln, "output", cls_of_rows, "aggregator norm"),
            Stage("icl_y_encoder", "icl_blocks.0", "input", rows, "row targets"),
        ]
        for layer in range(config.nlayers):
            name = f"icl_blocks.{layer}"
            found.append(Stage(name, name, "output", rows, f"ICL {layer}"))
        return [*found, Stage("output_norm", "output_norm", "output", rows, "output norm")]

    @override
    def looks(self, config: TabPFNV3Config) -> dict[str, Look]:
        return looks(self, config)

    @override
    def cost(self, config: TabPFNV3Config, device_type: str) -> Cost:
        width = config.embed_dim
        row_width = width * config.feat_agg_num_cls_tokens
        token = (4 + 2 * config.ff_factor) * width**2
        row = (4 + 2 * config.ff_factor) * row_width**2

        def per_table(size: Size) -> float:
            tokens = size.columns + config.feat_agg_num_cls_tokens
            cell = token + 4 * config.dist_embed_num_inducing_points * width
            embedder = config.dist_embed_num_blocks * size.rows * size.columns * cell
            reading = token + 2 * tokens * width
            aggregator = config.feat_agg_num_blocks * size.rows * tokens * reading
            icl = config.nlayers * size.rows * (row + 2 * size.train * row_width)
            head = size.test * config.ff_factor * row_width * (row_width + config.num_buckets)
            return float(embedder + aggregator + icl + head)

        blocks = sum(1 for _ in self.blocks(config))
        return Cost(per_table, blocks * block_overhead(device_type), PADDED)

    @override
    def criterion(self, model: TabPFNV3) -> FullSupportBarDistribution | None:
        borders = model.regression_borders.detach().to(torch.float32).clone()
        return FullSupportBarDistribution(borders, ignore_nan_targets=True)

    @override
    def released_config(self) -> TabPFNV3Config:
        return TabPFNV3Config(max_num_classes=0, num_buckets=5000)

    @override
    def _arm(self, model: TabPFNV3, *, patched: bool) -> None:
        # Stock replaces NaN logits by zeros, which look like a prediction.
        model._nan_safe_output = not patched


GENERATION = V3()
