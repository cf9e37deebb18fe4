"""What the adapters of the pre-norm generations share: where sites are, and what they cost.

Shapes: R rows, C columns, Q CLS tokens, I inducing vectors.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution
from torch import nn
from typing_extensions import override

from retrofit.hosts.cost import PADDED, Cost, Size, block_overhead
from retrofit.hosts.generation import Generation, Member
from retrofit.hosts.prenorm.looks import looks
from retrofit.hosts.prenorm.specimens import specimens
from retrofit.hosts.sites import POSITIONS_BY_RANK, SOURCES_COUNTED
from retrofit.hosts.stages import CELLS, Places, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from retrofit.hosts.anatomy import Specimen
    from retrofit.hosts.stages import Look

_EMBEDDER = "feature_distribution_embedder.layers"


def block_members(architecture: ModuleType) -> Mapping[type[Any], tuple[Member, ...]]:
    """Sites inside the blocks of a generation, whose stock classes have the same names in all."""
    mlp = Member("mlp", "ffn", architecture.MLP)

    def norms(*attributes: str) -> tuple[Member, ...]:
        norm = architecture._DtypeMatchingRMSNorm
        return tuple(Member(attribute, "norm", norm) for attribute in attributes)

    return {
        architecture.CrossAttentionBlock: (
            Member("attn", "attention", architecture.CrossAttention),
            mlp,
            *norms("layernorm_q", "layernorm_kv", "layernorm2"),
        ),
        architecture.TransformerBlock: (
            Member("attention", "attention", architecture.Attention),
            mlp,
            *norms("layernorm", "layernorm_mlp"),
        ),
        architecture.ICLTransformerBlock: (
            Member("icl_attention", "attention", architecture.ICLAttention),
            mlp,
            *norms("layernorm", "layernorm_mlp"),
        ),
    }


class PrenormGeneration(Generation):
    """A generation of three stages: columns by inducing vectors, rows by CLS tokens, then rows."""

    hides_nan = True
    cells: ClassVar[str] = "x_embed"
    """Layer that gives the embedded cells."""
    readout: ClassVar[str] = "output_projection"
    """Site of the logits."""

    @abstractmethod
    def _rotates(self, config: Any) -> bool:
        """Whether the columns of a row have rotary positions."""

    @abstractmethod
    def _ends_cost(self, config: Any, size: Size) -> float:
        """Multiplications of what embeds cells and of what reads predictions out."""

    @property
    def column_targets(self) -> str:
        """Site of the targets that are added to train cells."""
        site: str = self.patched_classes["closed"].column_targets
        return site

    @property
    def row_targets(self) -> str:
        """Site of the targets that are added to train rows."""
        site: str = self.patched_classes["closed"].row_targets
        return site

    @override
    def blocks(self, config: Any) -> Iterator[tuple[str, type[Any]]]:
        for layer in range(config.dist_embed_num_blocks):
            for half in (1, 2):
                name = f"{_EMBEDDER}.{layer}.cross_attn_block{half}"
                yield name, self.architecture.CrossAttentionBlock
        for layer in range(config.feat_agg_num_blocks):
            yield f"column_aggregator.blocks.{layer}", self.architecture.TransformerBlock
        for layer in range(config.nlayers):
            yield f"icl_blocks.{layer}", self.architecture.ICLTransformerBlock

    @override
    def bare_norms(self, config: Any) -> Iterator[tuple[str, type[Any]]]:
        yield "column_aggregator.out_ln", self.architecture._DtypeMatchingRMSNorm
        yield "output_norm", self.architecture._DtypeMatchingRMSNorm

    @override
    def closed_modules(self, config: Any) -> Iterator[tuple[str, type[Any]]]:
        scaling = self.architecture.SoftmaxScalingMLP
        for layer in range(config.dist_embed_num_blocks):
            name = f"{_EMBEDDER}.{layer}"
            yield name, self.architecture.InducedSelfAttentionBlock
            yield f"{name}.cross_attn_block1.attn.softmax_scaling_layer", scaling
        yield "column_aggregator", self.architecture.ColumnAggregator
        for layer in range(config.nlayers):
            yield f"icl_blocks.{layer}.icl_attention.softmax_scaling_layer", scaling

    @override
    def closed_members(self, config: Any, owner: type[Any]) -> Iterator[Member]:
        if owner is self.architecture.InducedSelfAttentionBlock:
            yield Member("inducing_vectors", "injection", nn.Parameter, "gated inducing vectors")
        elif owner is self.architecture.ColumnAggregator:
            yield Member("cls_tokens", "injection", nn.Parameter, "gated CLS tokens")
            if self._rotates(config):
                rope = self.architecture.RotaryEmbedding
                yield Member("rope", "injection", rope, POSITIONS_BY_RANK)
        else:
            yield Member("", "statistic", owner, SOURCES_COUNTED)

    @override
    def specimens(self, model: Any) -> Iterator[Specimen]:
        return specimens(model)

    @override
    def stages(self, config: Any) -> list[Stage]:
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
            Stage(self.row_targets, "icl_blocks.0", "input", rows, "row targets"),
        ]
        for layer in range(config.nlayers):
            name = f"icl_blocks.{layer}"
            found.append(Stage(name, name, "output", rows, f"ICL {layer}"))
        return [*found, Stage("output_norm", "output_norm", "output", rows, "output norm")]

    @override
    def looks(self, config: Any) -> dict[str, Look]:
        return looks(self, config)

    @override
    def cost(self, config: Any, device_type: str) -> Cost:
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
            return float(embedder + aggregator + icl + self._ends_cost(config, size))

        blocks = sum(1 for _ in self.blocks(config))
        return Cost(per_table, blocks * block_overhead(device_type), PADDED)

    @override
    def criterion(self, model: Any) -> FullSupportBarDistribution | None:
        borders = model.regression_borders.detach().to(torch.float32).clone()
        return FullSupportBarDistribution(borders, ignore_nan_targets=True)

    @override
    def _arm(self, model: Any, *, patched: bool) -> None:
        # Stock replaces NaN logits by zeros, which look like a prediction.
        model._nan_safe_output = not patched
