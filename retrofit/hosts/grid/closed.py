"""Closed grid hosts: NULL rows and columns leave no trace between the raw table and the blocks.

Each table of a batch is handed to stock without its NULL parts, as if it were alone. So constant
columns, groups, imputation, deviations and the ranks of column embeddings are those of what is
there, to the last bit. What comes of it is put into a grid that holds the NULL tokens too: present
columns form the first groups, NULL columns groups of their own after them.

Shapes: R rows, B batch, C columns, N train rows, M test rows, G groups, T thinking rows, E width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from retrofit.hosts.closed_model import ClosedModel
from retrofit.hosts.declare import declared, may_hold_nulls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from retrofit.hosts.declare import Presence
    from retrofit.hosts.gates import Gates

    State: TypeAlias = "dict[str, Tensor]"
    Stock: TypeAlias = "Callable[[Tensor, int, State | None], tuple[Tensor, State]]"

COLUMN_EMBEDDING = "feature_positional_embedding_embeddings"


class ClosedGrid(ClosedModel):
    """Mixin before a patched grid model: obeys the presence declared around a call."""

    gates: Gates
    features_per_group: int

    def train_statistics(self, x_RBC: Tensor, train: int) -> dict[str, Tensor]:  # noqa: ARG002
        """Nothing: tables are standardised without their NULL parts, so rounding is stock's."""
        return {}

    def _column_embeddings(self, x_BRGE: Tensor) -> Tensor:
        """Cells with stock's column embeddings added."""
        raise NotImplementedError

    def _embedded(
        self, x_RBC: Tensor, stock: Stock, grouping: str, states: Mapping[str, Tensor] | None
    ) -> tuple[Tensor, State]:
        """Cells (B, R, G, E), 0 where NULL, and what their columns were standardised by.

        ``stock`` embeds one table (R, 1, C) with so many train rows, or by a state of its own, as
        (1, R, G, E) and such a state. ``grouping`` is the site at which columns form groups. With
        ``states``, which a cache brings, every row is a test row.
        """
        presence = _presence()
        rows_BR = presence.test_rows
        if states is None:
            rows_BR = torch.cat((presence.train_rows, rows_BR), dim=1)
        counted_BR = torch.ones_like(rows_BR)
        if states is None:
            counted_BR = self.gates.support("standard_scaler", rows_BR)
        columns_BC = self.gates.support(grouping, presence.columns)
        train = presence.train_rows.shape[1]
        groups, parts = self._group_count(presence.columns), []
        fitted: State = {}
        for element, (counted_R, columns_C) in enumerate(zip(counted_BR, columns_BC, strict=True)):
            own_R1C = x_RBC[counted_R][:, element, columns_C][:, None]
            known = None if states is None else of_element(states, element)
            part_1RGE, state = stock(own_R1C, int(counted_R[:train].sum()), known)
            parts.append((counted_R, part_1RGE[0]))
            fitted |= {f"{element}.{name}": value for name, value in state.items()}

        first_RGE = parts[0][1]
        empty_11GE = first_RGE.new_zeros(1, 1, groups, first_RGE.shape[-1])
        x_BRGE = self._column_embeddings(empty_11GE).to(first_RGE.dtype)
        x_BRGE = x_BRGE.repeat(*rows_BR.shape, 1, 1)
        there_BG = torch.zeros(len(parts), groups, dtype=torch.bool, device=x_RBC.device)
        for element, (counted_R, part_RGE) in enumerate(parts):
            own = part_RGE.shape[1]
            x_BRGE[element, counted_R, :own] = part_RGE
            there_BG[element, :own] = True
        p_BRG = rows_BR[:, :, None] & there_BG[:, None]
        return self.gates.inject(COLUMN_EMBEDDING, x_BRGE, p_BRG), fitted

    def _group_count(self, columns_BC: Tensor) -> int:
        """Groups of the present columns and of the NULL ones, of the table that has most."""
        size, count_B = self.features_per_group, columns_BC.sum(dim=1)
        null_B = columns_BC.shape[1] - count_B
        return int(((count_B + size - 1) // size + (null_B + size - 1) // size).max())

    def _test_rows_only_null(self, x_BRGE: Tensor) -> Tensor:
        """Cells of test rows beside a cache that knows no NULL row or column, 0 where NULL."""
        return self.gates.inject(COLUMN_EMBEDDING, x_BRGE, _presence().test_rows[:, :, None])

    def _present_targets(self, site: str, y: Tensor) -> Tensor:
        """Targets (N, B) with gaps for NULL rows, which stock's mean leaves out."""
        counted_NB = self.gates.support(site, _presence().train_rows.T)
        return y.where(counted_NB, torch.nan)

    def _gated_targets(self, y_BRE: Tensor) -> Tensor:
        """Embedded targets of all rows, 0 where NULL."""
        presence = _presence()
        rows_BR = torch.cat((presence.train_rows, presence.test_rows), dim=1)
        return self.gates.inject("target_embedder", y_BRE, rows_BR)


class ThinkingGrid(ClosedGrid):
    """Closed v2.5 and v2.6, whose preprocessing has one shape."""

    def _column_embeddings(self: Any, x_BRGE: Tensor) -> Tensor:
        out: Tensor = self._add_column_embeddings(x_BRGE)
        return out

    def _preprocess_and_embed_features(
        self,
        x_RiBC: Tensor,
        num_train_labels: int,
        batch_size: int,
        *,
        scaler_cache: State | None = None,
        feature_state: State | None = None,
        return_state: bool = False,
    ) -> tuple[Tensor, State | None, State | None]:
        whole: Any = super()
        stock: Any = whole._preprocess_and_embed_features
        states = {**(scaler_cache or {}), **(feature_state or {})} or None
        if declared() is None or (states is not None and not of_element(states, 0)):
            x_BRGE, scaler_cache, feature_state = stock(
                x_RiBC,
                num_train_labels,
                batch_size,
                scaler_cache=scaler_cache,
                feature_state=feature_state,
                return_state=return_state,
            )
            if declared() is not None:
                x_BRGE = self._test_rows_only_null(x_BRGE)
            return x_BRGE, scaler_cache, feature_state

        def of_one(x_R1C: Tensor, train: int, known: State | None) -> tuple[Tensor, State]:
            if known is None:
                x_1RGE, scaled_by, state = stock(x_R1C, train, 1, return_state=True)
                return x_1RGE, {**scaled_by, **state}
            return stock(x_R1C, 0, 1, scaler_cache=known, feature_state=known)[0], {}

        x_BRGE, fitted = self._embedded(x_RiBC, of_one, "_preprocess_and_embed_features", states)
        return x_BRGE, {}, fitted

    def _preprocess_and_embed_targets(
        self, y: Tensor, num_train_rows: int, num_train_labels: int, batch_size: int
    ) -> Tensor:
        whole: Any = super()
        presence = declared()
        if presence is not None:
            y = self._present_targets("_preprocess_and_embed_targets", y)
        y_BRE: Tensor = whole._preprocess_and_embed_targets(
            y, num_train_rows, num_train_labels, batch_size
        )
        if presence is None or num_train_rows != num_train_labels + presence.test_rows.shape[1]:
            return y_BRE
        return self._gated_targets(y_BRE)

    def _remembering(self, cache: Any, y_NB: Tensor) -> Any:
        train, batch = y_NB.shape
        y_NB = self._present_targets("_preprocess_and_embed_targets", y_NB)
        whole: Any = super()
        y_BRE = whole._preprocess_and_embed_targets(y_NB, train + 1, train, batch)
        cache.test_y_embedding = y_BRE[:, -1].detach()
        return cache


class OThinkingRows:
    """Mixin before ``AddThinkingRows``: a NULL column has no thinking rows."""

    gates: Gates
    streams: tuple[str, ...] = ()

    def forward(self: Any, x_BRiCE: Tensor, single_eval_pos: int) -> tuple[Tensor, int]:
        """Cells (B, T + R, C, E) and the number of thinking and train rows.

        Test rows have no say in which columns are there.
        """
        if not may_hold_nulls():
            whole: Any = super()
            plain: tuple[Tensor, int] = whole.forward(x_BRiCE, single_eval_pos)
            return plain
        batch, _, columns, _ = x_BRiCE.shape
        there_BC = (x_BRiCE[:, :single_eval_pos] != 0).any(dim=3).any(dim=1)
        rows_BTCE = self.row_token_values_TE[None, :, None].expand(batch, -1, columns, -1)
        rows_BTCE = self.gates.inject("row_token_values_TE", rows_BTCE, there_BC[:, None])
        return torch.cat((rows_BTCE, x_BRiCE), dim=1), single_eval_pos + self.num_thinking_rows


def _presence() -> Presence:
    presence = declared()
    assert presence is not None
    return presence


def of_element(states: Mapping[str, Tensor], element: int) -> State:
    """The state of one batch element, if each has its own."""
    prefix = f"{element}."
    return {
        name.removeprefix(prefix): value
        for name, value in states.items()
        if name.startswith(prefix)
    }
