"""How closed pre-norm hosts standardise columns: by present train cells, to the last bit as stock.

Shapes: R rows, B batch, C columns, N train rows, G tables of one size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from retrofit.hosts.declare import current_call
from retrofit.ops import OStandardize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrofit.hosts.declare import Statistics

UNIT_STATISTICS = {"imputed": 0.0, "mean": 0.0, "std": 1.0}
"""What leaves a column as it is."""

_SAMPLE_MOMENTS = OStandardize(eps=0.0, correction=1.0)


class StandardizedModel:
    """Mixin of a model that can leave NULL rows out of its columns' statistics."""

    standard_scaler: Any

    def _standardised(self, x_RBC: Tensor, statistics: Statistics) -> Any:
        """What stock's ``_preprocess_raw`` returns of columns that have these statistics.

        Tensors (B, R, C), the last item being what a cache keeps of the statistics.
        """
        raise NotImplementedError

    def _completed(self, statistics: Statistics, x_NBC: Tensor, present_NBC: Tensor) -> Statistics:
        """``statistics`` and whatever else ``_standardised`` reads of the present train cells."""
        raise NotImplementedError

    def _preprocess_raw(
        self, x_RBC: Tensor, num_train: int, scaler_cache: dict[str, Tensor] | None = None
    ) -> Any:
        known = None if torch.compiler.is_compiling() else current_call().statistics
        if known is None or scaler_cache is not None:
            return super()._preprocess_raw(x_RBC, num_train, scaler_cache)  # type: ignore[misc]
        train_NBC = x_RBC[:num_train]
        everywhere = torch.ones_like(train_NBC, dtype=torch.bool)
        return self._standardised(x_RBC, self._completed(known, train_NBC, everywhere))

    def train_statistics(self, x_RBC: Tensor, train: int) -> dict[str, Tensor]:
        """What stock imputes, and mean and deviation once it has (B, C), from the train rows."""
        x_NBC = x_RBC[:train]
        finite_NBC = torch.isfinite(x_NBC)
        imputed_BC = x_NBC.where(finite_NBC, torch.nan).nanmean(dim=0).nan_to_num(0.0)
        fitted = self.standard_scaler.fit(x_NBC.where(finite_NBC, imputed_BC))
        return {"imputed": imputed_BC, **fitted}

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
        statistics = {
            name: x_NBC.new_full(x_NBC.shape[1:], fill) for name, fill in UNIT_STATISTICS.items()
        }
        for element_G1, column_GC, x_NGC in tables_of_one_size(x_NBC, present_NBC):
            for name, value_GC in self.train_statistics(x_NGC, len(x_NGC)).items():
                statistics[name][element_G1, column_GC] = value_GC
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


def tables_of_one_size(
    x_NBC: Tensor, present_NBC: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The tables without their NULL parts, those of one size together.

    Yields their places in the batch (G, 1), their columns (G, C), and themselves (N, G, C).
    """
    rows_BN, columns_BC = present_NBC.any(dim=-1).T, present_NBC.any(dim=0)
    sizes_B2 = torch.stack((rows_BN.sum(dim=1), columns_BC.sum(dim=1)), dim=1)
    for rows, columns in {(rows, columns) for rows, columns in sizes_B2.tolist()}:
        same_B = (sizes_B2 == sizes_B2.new_tensor((rows, columns))).all(dim=1)
        element_G11 = torch.nonzero(same_B)[:, :, None]
        row_GN1 = rows_BN[same_B].nonzero()[:, 1].view(-1, rows, 1)
        column_G1C = columns_BC[same_B].nonzero()[:, 1].view(-1, 1, columns)
        x_NGC = x_NBC[row_GN1, element_G11, column_G1C].transpose(0, 1).contiguous()
        yield element_G11[:, 0], column_G1C[:, 0], x_NGC
