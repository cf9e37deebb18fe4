"""What the adapters of v2, v2.5 and v2.6 share: sites, stages and cost of a grid of cells.

Shapes: R rows, C columns, G groups of columns, T thinking rows.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from tabpfn.architectures.interface import DEFAULT_ESTIMATOR_BATCH_BUDGET, EstimatorBatchBudget
from tabpfn.preprocessing.torch.torch_standard_scaler import TorchStandardScaler
from torch import nn
from typing_extensions import override

from retrofit.hosts.cost import PADDED, Cost, Size, block_overhead
from retrofit.hosts.generation import Generation, Member
from retrofit.hosts.grid import specimens
from retrofit.hosts.grid.blocks import CELLS as BETWEEN_CELLS
from retrofit.hosts.grid.blocks import FEATURES, NORMS
from retrofit.hosts.grid.closed import COLUMN_EMBEDDING
from retrofit.hosts.grid.looks import looks
from retrofit.hosts.stages import CELLS, Places, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution
    from torch import Tensor

    from retrofit.hosts.anatomy import Specimen
    from retrofit.hosts.stages import Look

# Where tabpfn's engines start to save memory on a CPU; they batch no tables of these generations.
_CELLS_OF_A_PASS = 200_000


class GridGeneration(Generation):
    """A generation whose blocks run over a grid of cells."""

    stand_in_modules = ("feature_group_embedder",)
    block: ClassVar[type[Any]]
    """Stock class of every block."""
    hidden: ClassVar[int]
    """Width of a feed-forward over that of a cell."""

    @override
    def blocks(self, config: Any) -> Iterator[tuple[str, type[Any]]]:
        for layer in range(config.nlayers):
            yield f"blocks.{layer}", self.block

    @override
    def bare_norms(self, config: Any) -> Iterator[tuple[str, type[Any]]]:
        yield from ()

    @override
    def members_of_model(self, config: Any) -> tuple[Member, ...]:
        if getattr(config, "encoder_type", "linear") == "linear":
            return self.model_members
        return tuple(
            member._replace(stock=nn.Sequential)
            if member.attribute == "feature_group_embedder"
            else member
            for member in self.model_members
        )

    @override
    def closed_modules(self, config: Any) -> Iterator[tuple[str, type[Any]]]:
        for stock in self.closed_twins:
            yield "add_thinking_rows", stock

    @override
    def closed_members(self, config: Any, owner: type[Any]) -> Iterator[Member]:
        yield Member("row_token_values_TE", "injection", nn.Parameter, "gated thinking rows")

    @override
    def specimens(self, model: Any) -> Iterator[Specimen]:
        return specimens.specimens(model)

    @override
    def stages(self, config: Any) -> list[Stage]:
        thinking = getattr(config, "num_thinking_rows", 0)

        def groups(places: Places) -> torch.Tensor:
            size, own = config.features_per_group, int(places.columns.sum())
            null = len(places.columns) - own
            present, absent = (torch.arange(-(-count // size)) for count in (own, null))
            # The target is the last column.
            return torch.cat((present >= 0, absent < 0, torch.tensor([True])))

        def cells(places: Places) -> torch.Tensor:
            return places.rows[:, None] & groups(places)

        def all_cells(places: Places) -> torch.Tensor:
            rows = torch.cat((torch.ones(thinking, dtype=torch.bool), places.rows))
            return rows[:, None] & groups(places)

        rows = "add_thinking_rows"
        found = [Stage(CELLS, rows if thinking else "blocks.0", "input", cells, CELLS)]
        if thinking:
            found.append(Stage(rows, rows, "output", all_cells, "thinking rows"))
        for layer, (name, _) in enumerate(self.blocks(config)):
            found.append(Stage(name, name, "output", all_cells, f"block {layer}"))
        return found

    @override
    def looks(self, config: Any) -> dict[str, Look]:
        return looks(self, config)

    @override
    def cost(self, config: Any, device_type: str) -> Cost:
        width = config.emsize
        thinking = getattr(config, "num_thinking_rows", 0)
        token = (8 + 2 * self.hidden) * width**2

        def per_table(size: Size) -> float:
            columns = -(-size.columns // config.features_per_group) + 1
            train = thinking + size.train
            cells = (train + size.test) * columns
            grid = config.nlayers * cells * (token + 2 * (columns + train) * width)
            return float(grid + size.test * self.hidden * width * (width + config.num_buckets))

        return Cost(per_table, config.nlayers * block_overhead(device_type), PADDED)

    @override
    def pass_budget(self, model: Any) -> EstimatorBatchBudget:
        return EstimatorBatchBudget(DEFAULT_ESTIMATOR_BATCH_BUDGET.rows, _CELLS_OF_A_PASS)

    @override
    def criterion(self, model: Any) -> FullSupportBarDistribution | None:
        return None

    @override
    def early_tensors(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor] | None:
        renamed: Mapping[str, Tensor] = tensors
        if any(name.startswith("transformer_encoder.") for name in tensors):
            renamed = self.architecture._replace_keys_from_base_architecture(dict(tensors))
        thinking = "add_thinking_rows.row_token_values_TE" in renamed
        own = f"blocks.0.{FEATURES}.q_projection.weight" in renamed
        return renamed if own and thinking == bool(self.closed_twins) else None

    @override
    def config_of(self, model: Any) -> Any:
        if hasattr(model, "config"):
            return model.config
        read: dict[str, Any] = {
            "emsize": model.emsize,
            "nlayers": len(model.blocks),
            "nhead": getattr(model.blocks[0], FEATURES).num_heads,
            "features_per_group": model.features_per_group,
            "num_buckets": model.n_out,
            "max_num_classes": 0,
            **self.more_config_of(model),
        }
        return self.config_class(**read)

    def more_config_of(self, model: Any) -> dict[str, Any]:
        """Settings that not every grid has, read from a model."""
        embedder = model.feature_group_embedder
        read = {"num_thinking_rows": model.add_thinking_rows.num_thinking_rows}
        if isinstance(embedder, nn.Linear):
            return read
        return {**read, "encoder_type": "mlp", "encoder_mlp_hidden_dim": embedder[0].out_features}

    @override
    def released_config(self) -> Any:
        return self.config_class(max_num_classes=0, num_buckets=5000)


def block_members(architecture: ModuleType, norm: type[Any]) -> tuple[Member, ...]:
    """Sites inside a block of tabpfn's module ``architecture``."""
    return (
        Member(FEATURES, "attention", architecture.AlongRowAttention),
        Member(BETWEEN_CELLS, "attention", architecture.AlongColumnAttention),
        Member("mlp", "ffn", nn.Sequential),
        *(Member(name, "norm", norm) for name in NORMS),
    )


def model_members(grouping: str, targets: str) -> tuple[Member, ...]:
    """Sites of the model; its methods that form groups and that embed targets go by their names."""
    return (
        Member("standard_scaler", "statistic", TorchStandardScaler, "statistics of present rows"),
        Member(grouping, "statistic", FunctionType, "groups of present columns"),
        Member(targets, "statistic", FunctionType, "target mean of present rows"),
        Member("feature_group_embedder", "injection", nn.Linear),
        Member(COLUMN_EMBEDDING, "injection", nn.Linear, "gated column embeddings by rank"),
        Member("target_embedder", "injection", nn.Linear, "gated targets"),
        Member("output_projection", "injection", nn.Sequential),
    )
