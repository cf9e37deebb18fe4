"""The TabPFN v2 generation: the grid, and how v2 groups and embeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass as checked_dataclass
from tabpfn.architectures import tabpfn_v2
from tabpfn.architectures.tabpfn_v2 import (
    LowerPrecisionLayerNorm,
    TabPFNBlock,
    TabPFNV2,
    TabPFNV2Cache,
    TabPFNV2Config,
)
from tabpfn.constants import ModelVersion
from typing_extensions import override

from retrofit.config import RetrofitConfig
from retrofit.errors import UnsupportedModeError
from retrofit.hosts.declare import declared
from retrofit.hosts.grid.adapter import GridGeneration, block_members, model_members
from retrofit.hosts.grid.blocks import OGridBlock
from retrofit.hosts.grid.closed import ClosedGrid, of_element
from retrofit.hosts.kv_cache import ClosedCache, PresentCache
from retrofit.hosts.patched_model import PatchedModel
from retrofit.hosts.upstream import ENGINE
from retrofit.hosts.v2.fingerprints import KNOWN

if TYPE_CHECKING:
    from torch import Tensor


@checked_dataclass
class OTabPFNV2Config(TabPFNV2Config):
    """The stock configuration with the settings of the retrofit."""

    oretro: RetrofitConfig | None = None


@dataclass
class PresentV2Cache(PresentCache, TabPFNV2Cache):
    """The cache of a patched host: every key/value entry carries presence."""


@dataclass
class ClosedV2Cache(ClosedCache, PresentV2Cache):
    """Key/value entries with presence, and the declared presence of train rows and columns."""


class OBlockV2(OGridBlock, TabPFNBlock):
    """Twin of ``TabPFNBlock``."""


class OTabPFNV2(PatchedModel, TabPFNV2):
    """A TabPFN v2 whose blocks are O-twins."""

    cache_class = PresentV2Cache


class OClosedTabPFNV2(ClosedGrid, OTabPFNV2):
    """A TabPFN v2 that obeys the presence declared around a call (``retrofit.declaring``)."""

    closed_cache_class = ClosedV2Cache
    cache_means_test_rows = True

    def _tensors(self, x: Any, y: Any) -> tuple[Tensor, Tensor | None]:
        for name, given in (("x", x), ("y", y)):
            if isinstance(given, dict) and set(given) != {"main"}:
                msg = f"TabPFN v2 reads 'main' of {name} and nothing else; got {sorted(given)}"
                raise UnsupportedModeError(msg)
        return super()._tensors(x, y)

    def _column_embeddings(self, x_BRGE: Tensor) -> Tensor:
        out: Tensor = self.add_column_embeddings(x_BRGE)
        return out

    def _pad_and_group_features(self, x_RBC: Tensor) -> tuple[Tensor, int, int, int]:
        if declared() is not None:
            # Every table is grouped by itself where it is embedded.
            return x_RBC, 0, *x_RBC.shape[:2]
        plain: tuple[Tensor, int, int, int] = super()._pad_and_group_features(x_RBC)
        return plain

    def _embed_features(
        self,
        x_RSF: Tensor,
        *,
        num_train_labels: int,
        num_feature_groups: int,
        batch_size: int,
        feature_cache: dict[str, Tensor] | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        group, embed = super()._pad_and_group_features, super()._embed_features

        def whole(
            x_RBC: Tensor, train: int, known: dict[str, Tensor] | None
        ) -> tuple[Tensor, dict[str, Tensor]]:
            grouped_RSF, groups, _, batch = group(x_RBC)
            out: tuple[Tensor, dict[str, Tensor]] = embed(
                grouped_RSF,
                num_train_labels=train,
                num_feature_groups=groups,
                batch_size=batch,
                feature_cache=known,
            )
            return out

        if declared() is None:
            plain: tuple[Tensor, dict[str, Tensor]] = embed(
                x_RSF,
                num_train_labels=num_train_labels,
                num_feature_groups=num_feature_groups,
                batch_size=batch_size,
                feature_cache=feature_cache,
            )
            return plain
        if feature_cache is not None and not of_element(feature_cache, 0):
            x_BRGE, state = whole(x_RSF, num_train_labels, feature_cache)
            return self._test_rows_only_null(x_BRGE), state
        return self._embedded(x_RSF, whole, "_pad_and_group_features", feature_cache)

    def _embed_targets(
        self, y: Tensor, *, num_rows: int, num_train_labels: int, batch_size: int
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        how = {"num_rows": num_rows, "num_train_labels": num_train_labels, "batch_size": batch_size}
        if declared() is None:
            plain: tuple[Tensor, Tensor, list[Tensor]] = super()._embed_targets(y, **how)
            return plain
        y = self._present_targets("_embed_targets", y)
        y_BRE, means_B1, classes = super()._embed_targets(y, **how)
        return self._gated_targets(y_BRE), means_B1, classes


class V2(GridGeneration):
    """TabPFN v2."""

    name = "v2"
    architecture_name = "tabpfn_v2"
    early_names = (None, "tabpfn_v2")
    architecture = tabpfn_v2
    versions = (ModelVersion.V2,)
    model_class = TabPFNV2
    config_class = TabPFNV2Config
    patched_config_class = OTabPFNV2Config
    patched_classes = {"oa": OTabPFNV2, "full": OTabPFNV2, "closed": OClosedTabPFNV2}
    block = TabPFNBlock
    hidden = 4
    block_members = {TabPFNBlock: block_members(tabpfn_v2, LowerPrecisionLayerNorm)}
    twins = {TabPFNBlock: OBlockV2}
    closed_twins = {}
    model_members = model_members("_pad_and_group_features", "_embed_targets")
    fingerprints = KNOWN
    engine_fingerprints = ENGINE
    small = {
        "emsize": 16,
        "nlayers": 1,
        "nhead": 2,
        "features_per_group": 2,
        "num_buckets": 10,
        "max_num_classes": 0,
    }

    @override
    def task_of(self, model: TabPFNV2) -> str:
        return "multiclass" if model.use_multiclass_target_encoding else "regression"

    @override
    def more_config_of(self, model: TabPFNV2) -> dict[str, Any]:
        return {"seed": model.seed}


GENERATION = V2()
