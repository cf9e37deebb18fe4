"""The closed pre-norm model: a declared NULL row or column is inert from raw table to prediction.

What is declared travels with the values, through every slice, chunk and compiled region of the
stock forward: the features become (R, B, 2C), values then one 0/1 flag per cell; the targets
become (N, B, 2); the feature groups get the flag as one more channel. Without a declaration
nothing is packed, and the code that runs is that of variant `full`.

Shapes: R rows, B batch, C columns, N train rows, M test rows, G grouped features, E width of a
cell, W width of a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from retrofit.hosts.closed_model import ClosedModel
from retrofit.hosts.prenorm.statistics import StandardizedModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from retrofit.hosts.declare import Statistics
    from retrofit.hosts.gates import Gates


class PackingModel(ClosedModel, StandardizedModel):
    """Mixin before a patched model: obeys the presence declared around a call."""

    column_targets: ClassVar[str] = "col_y_encoder"
    """Site of the targets that are added to train cells."""
    row_targets: ClassVar[str] = "icl_y_encoder"
    """Site of the targets that are added to train rows."""
    task: ClassVar[dict[str, Any]] = {}
    """What stock's methods for targets are told of the task."""

    gates: Gates
    x_embed: Any
    feature_group_size: int
    feature_distribution_embedder: Any
    column_aggregator: nn.Module
    _embed_col_y: Any

    def _told(
        self, x_RBC: Tensor, y_NB: Tensor, cells_RBC: Tensor, rows_NB: Tensor
    ) -> tuple[Tensor, Tensor]:
        return (
            torch.cat((x_RBC, cells_RBC.to(x_RBC.dtype)), dim=-1),
            torch.stack((y_NB, rows_NB.to(y_NB.dtype)), dim=-1),
        )

    def _unpacked(
        self,
        rows_RiBC: Tensor,
        y: Tensor,
        num_train: int,
        scaler_cache: dict[str, Tensor] | None,
    ) -> tuple[Any, Tensor, Tensor | None]:
        """From a packed table, what ``_standardised`` returns, and the flags of cells (B, R, C).

        The third are the embedded targets (B, N, E), without a cache.
        """
        x_RBC, flags_RBC = rows_RiBC.chunk(2, dim=-1)
        y_BNE = None
        if scaler_cache is not None:
            # Stock imputes rows that come to a cache with the scaler's mean, which is all it holds.
            statistics: Statistics = {"imputed": scaler_cache["mean"], **scaler_cache}
        else:
            train_NBC, present_NBC = x_RBC[:num_train], flags_RBC[:num_train] > 0
            counted_NBC = self.gates.support("standard_scaler", present_NBC)
            fitted = self._statistics(train_NBC, counted_NBC)
            statistics = self._completed(fitted, train_NBC, present_NBC)
            y_BN2 = self._prepare_y(y, num_train, x_RBC.shape[1], **self.task)
            y_BNE = self._embed_col_y(y_BN2[..., 0], **self.task)
        return self._standardised(x_RBC, statistics), flags_RBC.transpose(0, 1), y_BNE

    def _grouped(
        self, values: Sequence[Tensor], flags_BRC: Tensor, columns: slice = slice(None)
    ) -> Tensor:
        """Values (B, R, C) by groups, each with the flag of its cell: (B, R, C, G)."""
        columns_BC = self.gates.support("_group_features", (flags_BRC > 0).any(dim=1))
        source_BCG = group_members(columns_BC, self.feature_group_size)[:, columns]
        grouped = [_gather_columns(value_BRC, source_BCG) for value_BRC in values]
        return torch.cat((*grouped, flags_BRC[:, :, columns, None]), dim=-1)

    def _embed_cells(self, grouped_BRCG: Tensor, y_BNE: Tensor | None) -> tuple[Tensor, Tensor]:
        """Cells (B, R, C, E) with their targets, zero where NULL, and which are there (B, R, C)."""
        p_BRC = grouped_BRCG[..., -1]
        x_BRCE = self.gates.inject("x_embed", self.x_embed(grouped_BRCG[..., :-1]), p_BRC)
        if y_BNE is not None:
            train = y_BNE.shape[1]
            y_BN1E, p_BNC = y_BNE.unsqueeze(2), p_BRC[:, :train]
            target_BNCE = self.gates.inject(self.column_targets, y_BN1E, p_BNC)
            x_BRCE[:, :train] = x_BRCE[:, :train] + target_BNCE
        return x_BRCE, p_BRC > 0

    def _process_col_chunk(
        self,
        *,
        x_grouped_chunk_BNCjG: Tensor,
        y_col_emb_BNE: Tensor | None,
        num_train: int,
        **compiling: bool,
    ) -> list[Tensor]:
        if not self._is_packed(x_grouped_chunk_BNCjG):
            plain: list[Tensor] = super()._process_col_chunk(  # type: ignore[misc]
                x_grouped_chunk_BNCjG=x_grouped_chunk_BNCjG,
                y_col_emb_BNE=y_col_emb_BNE,
                num_train=num_train,
                **compiling,
            )
            return plain
        x_BNCE, _ = self._embed_cells(x_grouped_chunk_BNCjG, y_col_emb_BNE)
        batch_columns = (x_BNCE.shape[0], x_BNCE.shape[2])
        x_BcNE = x_BNCE.transpose(1, 2).contiguous().flatten(0, 1)
        layers = self.feature_distribution_embedder.layers
        hidden_by_layer = []
        for layer in layers:
            hidden_BcIE = layer.induce(x_BcNE, **compiling)
            hidden_by_layer.append(hidden_BcIE.unflatten(0, batch_columns))
            if layer is not layers[-1]:
                x_BcNE = layer.cross_attn_block2(x_BcNE, hidden_BcIE, **compiling)
        return hidden_by_layer

    def _process_row_chunk(
        self,
        x_grouped_chunk_BRjCG: Tensor,
        y_col_emb: Tensor | None,
        chunk_start: int,
        chunk_end: int,
        effective_num_train: int,
        precomputed_hidden: list[Tensor] | None,
        *,
        return_inducing_hidden: bool,
        is_full_path: bool,
        **how: Any,
    ) -> tuple[Tensor, list[Tensor] | None]:
        if not self._is_packed(x_grouped_chunk_BRjCG):
            plain: tuple[Tensor, list[Tensor] | None] = super()._process_row_chunk(  # type: ignore[misc]
                x_grouped_chunk_BRjCG,
                y_col_emb,
                chunk_start,
                chunk_end,
                effective_num_train,
                precomputed_hidden,
                return_inducing_hidden=return_inducing_hidden,
                is_full_path=is_full_path,
                **how,
            )
            return plain
        save_peak_memory_factor, compiling = self._how(how)
        train = max(0, min(effective_num_train, chunk_end) - chunk_start)
        y_BNE = None if y_col_emb is None else y_col_emb[:, chunk_start : chunk_start + train]
        x_BRCE, present_BRC = self._embed_cells(x_grouped_chunk_BRjCG, y_BNE)
        x_BRCE, hidden = self.feature_distribution_embedder(
            x_BRiCE=x_BRCE,
            num_train_rows=train,
            cached_hidden=precomputed_hidden,
            save_peak_memory_factor=save_peak_memory_factor if is_full_path else None,
            return_hidden=return_inducing_hidden and is_full_path,
            **compiling,
        )
        rows_BRQE = self.column_aggregator(
            x_BRiCE=x_BRCE,
            save_peak_memory_factor=save_peak_memory_factor,
            present_BR=present_BRC.any(dim=-1),
            **compiling,
        )
        return rows_BRQE, hidden

    def _is_packed(self, grouped_BRCG: Tensor) -> bool:
        return bool(grouped_BRCG.shape[-1] == self._group_width + 1)

    @property
    def _group_width(self) -> int:
        """Numbers that ``x_embed`` takes of a cell."""
        raise NotImplementedError

    def _how(self, how: dict[str, Any]) -> tuple[int | None, dict[str, bool]]:
        """What ``_process_row_chunk`` is told of saving memory, and of compiling blocks."""
        raise NotImplementedError

    def _prepare_y(self, y: Tensor, num_train: int, batch_size: int, **task: Any) -> Tensor:
        """Targets without gaps (B, N); with their flags (B, N, 2) if they came with flags.

        The mean that stock imputes is that of the present targets.
        """
        if y.dim() != 3:
            plain: Tensor = super()._prepare_y(y, num_train, batch_size, **task)  # type: ignore[misc]
            return plain
        # Stock's own mean leaves NaN out.
        counted_NB = self.gates.support("_prepare_y", y[..., 1] > 0)
        values_BN = super()._prepare_y(  # type: ignore[misc]
            y[..., 0].where(counted_NB, torch.nan), num_train, batch_size, **task
        )
        return torch.stack((values_BN, y[..., 1].T), dim=-1)

    def _embed_icl_y(self, y_BN: Tensor, **task: Any) -> Tensor:
        values_BN = y_BN if y_BN.dim() != 3 else y_BN[..., 0]
        embedded: Tensor = super()._embed_icl_y(values_BN, **task)  # type: ignore[misc]
        if y_BN.dim() != 3:
            return embedded
        return self.gates.inject(self.row_targets, embedded, y_BN[..., 1])


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
