"""The patched TabPFN v3.5 models: regressors, though a checkpoint holds both heads.

Shapes: R rows, B batch, C columns, N train rows, K edges of an ECDF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tabpfn.architectures.tabpfn_v3_5 import (
    _ECDF_CONTEXT_KEY,
    ECDF_CONTEXT_DTYPE,
    TabPFNV3p5,
    _build_ecdf_context,
    _generate_nan_and_inf_indicator,
    _in_context_ecdf,
)
from typing_extensions import override

from retrofit.errors import UnsupportedModeError
from retrofit.hosts.patched_model import PatchedModel
from retrofit.hosts.prenorm.closed import PackingModel
from retrofit.hosts.prenorm.statistics import tables_of_one_size
from retrofit.hosts.v3_5.cache import ClosedV3p5Cache, PresentV3p5Cache

if TYPE_CHECKING:
    from tabpfn.constants import TaskType
    from torch import Tensor

    from retrofit.hosts.declare import Statistics

TASK = {"task_type": "regression"}
"""The task that is served, as stock's methods are told of it."""

_Preprocessed = tuple["Tensor", "Tensor", "Tensor", "Tensor | None", "dict[str, Tensor]"]


class OTabPFNV3p5(PatchedModel, TabPFNV3p5):
    """A TabPFN v3.5 whose blocks are O-twins."""

    cache_class = PresentV3p5Cache

    @override
    def _require_supported(self, kv_cache: Any, task_type: str | None) -> None:
        if task_type != TASK["task_type"]:
            msg = (
                f"task_type is {task_type!r}: oretro patches what TabPFN v3.5 runs for "
                "'regression', and its classification head would run on patched layers that it "
                "was never checked with; classify with the stock checkpoint"
            )
            raise UnsupportedModeError(msg)
        super()._require_supported(kv_cache, task_type)


class OClosedTabPFNV3p5(PackingModel, OTabPFNV3p5):
    """A TabPFN v3.5 that obeys the presence declared around a call (``retrofit.declaring``)."""

    closed_cache_class = ClosedV3p5Cache
    column_targets = "col_y_layernorm"
    row_targets = "icl_y_layernorm"
    task = TASK

    @override
    def _completed(self, statistics: Statistics, x_NBC: Tensor, present_NBC: Tensor) -> Statistics:
        """With the edges that cells are ranked against: those of the present train cells.

        A table with fewer train rows than the batch has fewer edges; its last one is repeated,
        which no rank can tell from one.
        """
        x_NBC = x_NBC.where(torch.isfinite(x_NBC), statistics["mean"])
        ranked_NBC = self.gates.support("_preprocess_raw", present_NBC)
        edges = min(self.ecdf_num_buckets, len(x_NBC))
        context_3BCK = x_NBC.new_zeros((3, *x_NBC.shape[1:], edges), dtype=ECDF_CONTEXT_DTYPE)
        # A NULL column has one train row, so that the ranks of its cells are numbers.
        context_3BCK[2] = 1.0
        for element_G1, column_GC, x_NGC in tables_of_one_size(x_NBC, ranked_NBC):
            found_3GCK = _build_ecdf_context(x_NGC.transpose(0, 1), len(x_NGC), edges)
            last = found_3GCK.shape[-1] - 1
            edge_K = torch.arange(edges, device=x_NBC.device).clamp(max=last)
            context_3BCK[:, element_G1, column_GC] = found_3GCK[..., edge_K]
        return {**statistics, _ECDF_CONTEXT_KEY: context_3BCK}

    @override
    def _standardised(
        self, x_RBC: Tensor, statistics: Statistics
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Values, gap indicators and ranks (B, R, C) as stock makes them, and a cache's part."""
        kept = {name: statistics[name] for name in ("mean", "std", _ECDF_CONTEXT_KEY)}
        indicators_BRC = _generate_nan_and_inf_indicator(x_RBC).transpose(0, 1)
        x_RBC = x_RBC.where(torch.isfinite(x_RBC), kept["mean"])
        ranks_BRC = _in_context_ecdf(x_RBC.transpose(0, 1), kept[_ECDF_CONTEXT_KEY])
        x_RBC = self.standard_scaler.transform(x_RBC, fitted_cache=kept)
        return x_RBC.transpose(0, 1), indicators_BRC, ranks_BRC, kept

    @override
    def _preprocess_no_group(
        self,
        rows_RiBC: Tensor,
        y: Tensor,
        num_train: int,
        scaler_cache: dict[str, Tensor] | None,
        task_type: TaskType,
    ) -> _Preprocessed:
        """As stock's, in one place for whole tables and for chunks of them.

        The flags of the cells (B, R, C) come after their gap indicators, which are sliced by rows
        only.
        """
        if y.dim() != 3:
            return super()._preprocess_no_group(rows_RiBC, y, num_train, scaler_cache, task_type)
        (x_BRC, indicators_BRC, ranks_BRC, kept), flags_BRC, y_BNE = self._unpacked(
            rows_RiBC, y, num_train, scaler_cache
        )
        return x_BRC, torch.cat((indicators_BRC, flags_BRC), dim=-1), ranks_BRC, y_BNE, kept

    @override
    def _group_features(self, x_BRiC: Tensor, nan_ind_BRiC: Tensor, ecdf_BRiC: Tensor) -> Tensor:
        if nan_ind_BRiC.shape == x_BRiC.shape:
            return super()._group_features(x_BRiC, nan_ind_BRiC, ecdf_BRiC)
        indicators_BRC, flags_BRC = nan_ind_BRiC.chunk(2, dim=-1)
        return self._grouped((x_BRiC, indicators_BRC, ecdf_BRiC), flags_BRC)

    @override
    def _group_feature_cols(
        self,
        x_BRiC: Tensor,
        nan_ind_BRiC: Tensor,
        ecdf_BRiC: Tensor,
        col_start: int,
        col_end: int,
    ) -> Tensor:
        if nan_ind_BRiC.shape == x_BRiC.shape:
            return super()._group_feature_cols(x_BRiC, nan_ind_BRiC, ecdf_BRiC, col_start, col_end)
        indicators_BRC, flags_BRC = nan_ind_BRiC.chunk(2, dim=-1)
        values = x_BRiC, indicators_BRC, ecdf_BRiC
        return self._grouped(values, flags_BRC, slice(col_start, col_end))

    @property
    @override
    def _group_width(self) -> int:
        width: int = self.x_embed.input_width
        return width

    @override
    def _how(self, how: dict[str, Any]) -> tuple[int | None, dict[str, bool]]:
        options = how["performance_options"]
        compiling = {"enable_torch_compile": options.enable_torch_compile}
        return options.save_peak_memory_factor, compiling
