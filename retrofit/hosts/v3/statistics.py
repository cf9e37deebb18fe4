"""How a closed v3 host standardises columns: by the present train cells, to the last bit as stock.

Shapes: R rows, B batch, C columns, N train rows, G tables of one size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tabpfn.architectures.tabpfn_v3 import (
    _generate_nan_and_inf_indicator,
    _impute_nan_and_inf_with_mean,
)
from torch import Tensor

from retrofit.hosts.declare import current_call
from retrofit.hosts.v3.model import OTabPFNV3
from retrofit.ops import OStandardize

if TYPE_CHECKING:
    from retrofit.hosts.declare import Statistics

UNIT_STATISTICS = {"imputed": 0.0, "mean": 0.0, "std": 1.0}
"""What leaves a column as it is."""

_SAMPLE_MOMENTS = OStandardize(eps=0.0, correction=1.0)


class OStandardizedTabPFNV3(OTabPFNV3):
    """A TabPFN v3 that can leave NULL rows out of its columns' statistics."""

    def _preprocess_raw(
        self, x_RBC: Tensor, num_train: int, scaler_cache: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
        known = None if torch.compiler.is_compiling() else current_call().statistics
        if known is not None and scaler_cache is None:
            return self._standardised(x_RBC, known)
        plain: tuple[Tensor, Tensor | None, dict[str, Tensor]] = super()._preprocess_raw(
            x_RBC, num_train, scaler_cache
        )
        return plain

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

    def train_statistics(self, x_RBC: Tensor, train: int) -> dict[str, Tensor]:
        """What stock imputes, and mean and deviation once it has (B, C), from the train rows."""
        imputed_RBC, finite_RBC = _impute_nan_and_inf_with_mean(x_RBC, train)
        known_NBC = x_RBC[:train].where(finite_RBC[:train], torch.nan)
        return {
            "imputed": known_NBC.nanmean(dim=0).nan_to_num(0.0),
            **self.standard_scaler.fit(imputed_RBC[:train]),
        }

    def _statistics(self, x_NBC: Tensor, present_NBC: Tensor) -> dict[str, Tensor]:
        """``train_statistics`` of the present train cells.

        A column of equal numbers deviates by what rounding makes of it, nothing or next to nothing,
        and stock divides by that. So stock itself is asked, of the tables without their NULL parts:
        any other order of sums would decide otherwise. ``torch.compile``, which orders sums at
        will, gets weighted sums.
        """
        if torch.compiler.is_compiling():
            return self._weighted_statistics(x_NBC, present_NBC)
        known = current_call().statistics
        if known is not None:
            return dict(known)
        rows_BN, columns_BC = present_NBC.any(dim=-1).T, present_NBC.any(dim=0)
        statistics = {
            name: x_NBC.new_full(x_NBC.shape[1:], fill) for name, fill in UNIT_STATISTICS.items()
        }
        sizes_B2 = torch.stack((rows_BN.sum(dim=1), columns_BC.sum(dim=1)), dim=1)
        for rows, columns in {(rows, columns) for rows, columns in sizes_B2.tolist()}:
            same_B = (sizes_B2 == sizes_B2.new_tensor((rows, columns))).all(dim=1)
            element_G11 = torch.nonzero(same_B)[:, :, None]
            row_GN1 = rows_BN[same_B].nonzero()[:, 1].view(-1, rows, 1)
            column_G1C = columns_BC[same_B].nonzero()[:, 1].view(-1, 1, columns)
            x_NGC = x_NBC[row_GN1, element_G11, column_G1C].transpose(0, 1).contiguous()
            for name, value_GC in self.train_statistics(x_NGC, rows).items():
                statistics[name][element_G11[:, 0], column_G1C[:, 0]] = value_GC
        return statistics

    def _weighted_statistics(self, x_NBC: Tensor, present_NBC: Tensor) -> dict[str, Tensor]:
        """As ``_statistics``, up to rounding, without reading which rows are present.

        Stock imputes first, so an imputed cell counts in the deviation and not in the mean.
        """
        x_BCN1 = x_NBC.permute(1, 2, 0)[..., None]
        p_BCN = present_NBC.permute(1, 2, 0).to(x_NBC.dtype)
        finite_BCN1 = torch.isfinite(x_BCN1)
        x_BCN1 = x_BCN1.where(finite_BCN1, 0.0)
        known_BC11, _ = _SAMPLE_MOMENTS.moments(x_BCN1, p_BCN * finite_BCN1[..., 0])
        imputed_BCN1 = x_BCN1.where(finite_BCN1, known_BC11.to(x_BCN1.dtype))
        mean_BC11, std_BC11 = _SAMPLE_MOMENTS.moments(imputed_BCN1, p_BCN)
        std_BC11 = std_BC11.where(std_BC11 > 0, 1.0)
        statistics = {"imputed": known_BC11, "mean": mean_BC11, "std": std_BC11}
        return {name: value[..., 0, 0].to(x_NBC.dtype) for name, value in statistics.items()}
