"""The closed TabPFN v3: a declared NULL row or column is inert from raw table to prediction.

What is declared travels with the values, through every slice, chunk and compiled region of the
stock forward: the features become (R, B, 2C), values then one 0/1 flag per cell; the targets
become (N, B, 2); the feature groups get the flag as one more channel. Without a declaration
nothing is packed, and the code that runs is that of variant `full`.

Shapes: R rows, B batch, C columns, N train rows, M test rows, G grouped features, E width of a
cell, W width of a row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from retrofit.hosts.closed_model import ClosedModel
from retrofit.hosts.v3.cache import ClosedV3Cache
from retrofit.hosts.v3.statistics import OStandardizedTabPFNV3


class OClosedTabPFNV3(ClosedModel, OStandardizedTabPFNV3):
    """A TabPFN v3 that obeys the presence declared around a call (``retrofit.declaring``)."""

    closed_cache_class = ClosedV3Cache

    def _told(
        self, x_RBC: Tensor, y_NB: Tensor, cells_RBC: Tensor, rows_NB: Tensor
    ) -> tuple[Tensor, Tensor]:
        return (
            torch.cat((x_RBC, cells_RBC.to(x_RBC.dtype)), dim=-1),
            torch.stack((y_NB, rows_NB.to(y_NB.dtype)), dim=-1),
        )

    def _preprocess_and_group(
        self,
        rows_RiBC: Tensor,
        y: Tensor,
        num_train: int,
        scaler_cache: dict[str, Tensor] | None,
    ) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
        if y.dim() != 3:
            plain: tuple[Tensor, Tensor | None, dict[str, Tensor]] = super()._preprocess_and_group(
                rows_RiBC, y, num_train, scaler_cache
            )
            return plain
        x_RBC, flags_RBC = rows_RiBC.chunk(2, dim=-1)
        present_RBC = flags_RBC > 0
        y_BNE = None
        if scaler_cache is not None:
            # Stock imputes rows that come to a cache with the scaler's mean, which is all it holds.
            statistics = {"imputed": scaler_cache["mean"], **scaler_cache}
        else:
            counted_NBC = self.gates.support("standard_scaler", present_RBC[:num_train])
            statistics = self._statistics(x_RBC[:num_train], counted_NBC)
            y_BNE = self._embed_col_y(self._prepare_y(y, num_train, x_RBC.shape[1])[..., 0])
        x_BRC, indicators_BRC, scaler_cache = self._standardised(x_RBC, statistics)

        present_BRC = present_RBC.transpose(0, 1)
        values = [x_BRC, *([] if indicators_BRC is None else [indicators_BRC])]
        columns_BC = self.gates.support("_group_features", present_BRC.any(dim=1))
        source_BCG = group_members(columns_BC, self.feature_group_size)
        grouped = [_gather_columns(value_BRC, source_BCG) for value_BRC in values]
        return (
            torch.cat((*grouped, flags_RBC.transpose(0, 1)[..., None]), dim=-1),
            y_BNE,
            scaler_cache,
        )

    def _embed_cells(self, grouped_BRCG: Tensor, y_BNE: Tensor | None) -> tuple[Tensor, Tensor]:
        """Cells (B, R, C, E) with their targets, zero where NULL, and which are there (B, R, C)."""
        p_BRC = grouped_BRCG[..., -1]
        x_BRCE = self.gates.inject("x_embed", self.x_embed(grouped_BRCG[..., :-1]), p_BRC)
        if y_BNE is not None:
            train = y_BNE.shape[1]
            y_BN1E, p_BNC = y_BNE.unsqueeze(2), p_BRC[:, :train]
            target_BNCE = self.gates.inject("col_y_encoder", y_BN1E, p_BNC)
            x_BRCE[:, :train] = x_BRCE[:, :train] + target_BNCE
        return x_BRCE, p_BRC > 0

    def _process_col_chunk(
        self, *, x_grouped_chunk_BNCjG: Tensor, y_col_emb_BNE: Tensor | None, num_train: int
    ) -> list[Tensor]:
        if not self._is_packed(x_grouped_chunk_BNCjG):
            plain: list[Tensor] = super()._process_col_chunk(
                x_grouped_chunk_BNCjG=x_grouped_chunk_BNCjG,
                y_col_emb_BNE=y_col_emb_BNE,
                num_train=num_train,
            )
            return plain
        x_BNCE, _ = self._embed_cells(x_grouped_chunk_BNCjG, y_col_emb_BNE)
        batch_columns = (x_BNCE.shape[0], x_BNCE.shape[2])
        x_BcNE = x_BNCE.transpose(1, 2).contiguous().flatten(0, 1)
        layers = self.feature_distribution_embedder.layers
        hidden_by_layer = []
        for layer in layers:
            hidden_BcIE = layer.induce(x_BcNE)
            hidden_by_layer.append(hidden_BcIE.unflatten(0, batch_columns))
            if layer is not layers[-1]:
                x_BcNE = layer.cross_attn_block2(x_BcNE, hidden_BcIE)
        return hidden_by_layer

    def _process_row_chunk(
        self,
        x_grouped_chunk_BRjCG: Tensor,
        y_col_emb: Tensor | None,
        chunk_start: int,
        chunk_end: int,
        effective_num_train: int,
        precomputed_hidden: list[Tensor] | None,
        save_peak_memory_factor: int | None,
        *,
        force_recompute_layer: bool,
        return_inducing_hidden: bool,
        is_full_path: bool,
    ) -> tuple[Tensor, list[Tensor] | None]:
        if not self._is_packed(x_grouped_chunk_BRjCG):
            plain: tuple[Tensor, list[Tensor] | None] = super()._process_row_chunk(
                x_grouped_chunk_BRjCG,
                y_col_emb,
                chunk_start,
                chunk_end,
                effective_num_train,
                precomputed_hidden,
                save_peak_memory_factor,
                force_recompute_layer=force_recompute_layer,
                return_inducing_hidden=return_inducing_hidden,
                is_full_path=is_full_path,
            )
            return plain
        train = max(0, min(effective_num_train, chunk_end) - chunk_start)
        y_BNE = None if y_col_emb is None else y_col_emb[:, chunk_start : chunk_start + train]
        x_BRCE, present_BRC = self._embed_cells(x_grouped_chunk_BRjCG, y_BNE)
        x_BRCE, hidden = self.feature_distribution_embedder(
            x_BRiCE=x_BRCE,
            num_train_rows=train,
            cached_hidden=precomputed_hidden,
            save_peak_memory_factor=save_peak_memory_factor if is_full_path else None,
            return_hidden=return_inducing_hidden and is_full_path,
        )
        rows_BRQE = self.column_aggregator(
            x_BRiCE=x_BRCE,
            save_peak_memory_factor=save_peak_memory_factor,
            present_BR=present_BRC.any(dim=-1),
        )
        return rows_BRQE, hidden

    def _is_packed(self, grouped_BRCG: Tensor) -> bool:
        return bool(grouped_BRCG.shape[-1] == self.x_embed.in_features + 1)

    def _prepare_y(self, y: Tensor, num_train: int, batch_size: int) -> Tensor:
        """Targets without gaps (B, N); with their flags (B, N, 2) if they came with flags.

        The mean that stock imputes is that of the present targets.
        """
        if y.dim() != 3:
            plain: Tensor = super()._prepare_y(y, num_train, batch_size)
            return plain
        # Stock's own mean leaves NaN out.
        counted_NB = self.gates.support("_prepare_y", y[..., 1] > 0)
        values_BN = super()._prepare_y(
            y[..., 0].where(counted_NB, torch.nan), num_train, batch_size
        )
        return torch.stack((values_BN, y[..., 1].T), dim=-1)

    def _embed_icl_y(self, y_BN: Tensor) -> Tensor:
        if y_BN.dim() != 3:
            plain: Tensor = super()._embed_icl_y(y_BN)
            return plain
        return self.gates.inject("icl_y_encoder", super()._embed_icl_y(y_BN[..., 0]), y_BN[..., 1])


def group_members(columns_BC: Tensor, size: int) -> Tensor:
    """Which columns form the group of each: (B, C, size), rolled over the present columns only.

    A NULL column's own group holds columns too; nobody looks at it.
    """
    order_BC = columns_BC.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    rank_BC = columns_BC.cumsum(dim=1) - 1
    count_B1 = columns_BC.sum(dim=1, keepdim=True).clamp(min=1)
    members = [order_BC.gather(1, (rank_BC + 2**step) % count_B1) for step in range(size)]
    return torch.stack(members, dim=-1)


def _gather_columns(value_BRC: Tensor, source_BCG: Tensor) -> Tensor:
    """``value[b, r, source[b, c, g]]`` as (B, R, C, G)."""
    rows = value_BRC.shape[1]
    parts = [
        value_BRC.gather(2, source_BC[:, None].expand(-1, rows, -1))
        for source_BC in source_BCG.unbind(-1)
    ]
    return torch.stack(parts, dim=-1)
