"""The patched TabPFN v3 models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tabpfn.architectures.tabpfn_v3 import TabPFNV3, _generate_nan_and_inf_indicator
from typing_extensions import override

from retrofit.hosts.patched_model import PatchedModel
from retrofit.hosts.prenorm.closed import PackingModel
from retrofit.hosts.v3.cache import ClosedV3Cache, PresentV3Cache

if TYPE_CHECKING:
    from torch import Tensor

    from retrofit.hosts.declare import Statistics

_Grouped = tuple["Tensor", "Tensor | None", "dict[str, Tensor]"]


class OTabPFNV3(PatchedModel, TabPFNV3):
    """A TabPFN v3 whose blocks are O-twins."""

    cache_class = PresentV3Cache


class OClosedTabPFNV3(PackingModel, OTabPFNV3):
    """A TabPFN v3 that obeys the presence declared around a call (``retrofit.declaring``)."""

    closed_cache_class = ClosedV3Cache

    @override
    def _completed(self, statistics: Statistics, x_NBC: Tensor, present_NBC: Tensor) -> Statistics:
        return statistics

    @override
    def _standardised(
        self, x_RBC: Tensor, statistics: Statistics
    ) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
        """Values and gap indicators (B, R, C) as stock makes them, and the scaler's cache."""
        indicators_BRC = None
        if self.use_nan_indicators:
            indicators_BRC = _generate_nan_and_inf_indicator(x_RBC).transpose(0, 1)
        x_RBC = x_RBC.where(torch.isfinite(x_RBC), statistics["imputed"])
        scaler_cache = {name: statistics[name] for name in ("mean", "std")}
        x_RBC = self.standard_scaler.transform(x_RBC, fitted_cache=scaler_cache)
        return x_RBC.transpose(0, 1), indicators_BRC, scaler_cache

    @override
    def _preprocess_and_group(
        self,
        rows_RiBC: Tensor,
        y: Tensor,
        num_train: int,
        scaler_cache: dict[str, Tensor] | None,
    ) -> _Grouped:
        if y.dim() != 3:
            plain: _Grouped = super()._preprocess_and_group(rows_RiBC, y, num_train, scaler_cache)
            return plain
        (x_BRC, indicators_BRC, fitted), flags_BRC, y_BNE = self._unpacked(
            rows_RiBC, y, num_train, scaler_cache
        )
        values = [x_BRC, *([] if indicators_BRC is None else [indicators_BRC])]
        return self._grouped(values, flags_BRC), y_BNE, fitted

    @property
    @override
    def _group_width(self) -> int:
        width: int = self.x_embed.in_features
        return width

    @override
    def _how(self, how: dict[str, Any]) -> tuple[int | None, dict[str, bool]]:
        return how["save_peak_memory_factor"], {}
