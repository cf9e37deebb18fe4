"""O-twin of the block that v2, v2.5 and v2.6 share.

Norms come after the residual here, so what an attention, a feed-forward or a norm is handed is the
carrier itself, and each of them has a stream of its own.

Shapes: B batch (rows or columns folded in), S receivers, R rows, C columns, N train rows,
H heads, D head width, E model width.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from tabpfn.architectures.shared.chunked_evaluate import chunked_evaluate_maybe_inplace
from torch import Tensor

from retrofit.hosts.declare import declared
from retrofit.hosts.gates import heads
from retrofit.hosts.kv_cache import PresentKVCacheEntry, present_entry
from retrofit.ops import gate

if TYPE_CHECKING:
    from tabpfn.architectures.kv_cache import KVCacheEntry, QuantizedKVCacheEntry

    from retrofit.hosts.gates import Gates

FEATURES, CELLS = "per_sample_attention_between_features", "per_column_attention_between_cells"
NORMS = ("layernorm_mha1", "layernorm_mha2", "layernorm_mlp")


class OGridBlock:
    """Mixin before ``TabPFNBlock``; streams ``features``, ``cells``, ``ffn`` and its norms'."""

    gates: Gates
    streams = ("features", NORMS[0], "cells", NORMS[1], "ffn", NORMS[2])

    def forward(
        self: Any,
        x_BRCE_container: list[Tensor] | Tensor,
        single_eval_pos: int,
        save_peak_memory_factor: int | None,
        *,
        cached_kv: KVCacheEntry | QuantizedKVCacheEntry | None = None,
        return_kv: bool = False,
    ) -> tuple[Tensor, PresentKVCacheEntry | None]:
        """Attention over columns, attention over rows, feed-forward: (B, R, C, E).

        Returns the new carriers and, with ``return_kv``, the cache entry.

        Raises:
            UnsupportedModeError: the cache was built by a model without presence.
        """
        # Presence belongs inside the chunks: the helper overwrites the carriers as it goes.
        add, replace = (
            partial(
                chunked_evaluate_maybe_inplace,
                save_peak_memory_factor=save_peak_memory_factor,
                residual=residual,
            )
            for residual in (True, False)
        )
        given = x_BRCE_container
        x = given if isinstance(given, Tensor) else given.pop(0)
        del given
        if cached_kv is not None:
            x = self._present_rows(x)
        x = add(self._between_features, x, batch_dims=2)
        x = replace(partial(self._normed, NORMS[0]), x, batch_dims=3)

        x = x.transpose(1, 2).contiguous()
        entry: PresentKVCacheEntry | None = None
        if return_kv or cached_kv is not None:
            columns = x.shape[:2]
            update, train_rows = self._between_cells(x.flatten(0, 1), single_eval_pos, cached_kv)
            x = x + update.unflatten(0, columns)
            if return_kv:
                # Copies, so that the heads which test rows never read can be freed.
                key, value, p_BN = (part.contiguous().detach() for part in train_rows)
                entry = PresentKVCacheEntry(key=key, value=value, presence=p_BN)
        else:
            x = add(self._cells_update, x, batch_dims=2, single_eval_pos=single_eval_pos)
        x = replace(partial(self._normed, NORMS[1]), x, batch_dims=3)
        x = x.transpose(1, 2).contiguous()

        x = add(self._feed_forward_update, x, batch_dims=3)
        return replace(partial(self._normed, NORMS[2]), x, batch_dims=3), entry

    def _present_rows(self, x_BRCE: Tensor) -> Tensor:
        """Test rows beside a cache without the NULL ones, to which stock gives a target too."""
        presence = declared() if self.gates.closed else None
        if presence is None:
            return x_BRCE
        return gate(x_BRCE, presence.test_rows[:, :, None])

    def _between_features(self: Any, x_BSE: Tensor) -> Tensor:
        gates, attention = self.gates, getattr(self, FEATURES)
        p_BS = gates.presence("features", x_BSE)
        projections = attention.q_projection, attention.k_projection, attention.v_projection
        q, k, v = (heads(projection, x_BSE, attention.head_dim) for projection in projections)
        # No output projection has a bias, so the receiver gate may stand before it.
        update: Tensor = attention.out_projection(gates.attend(FEATURES, q, k, v, p_BS, p_BS))
        return update

    def _cells_update(self, x_BRE: Tensor, single_eval_pos: int) -> Tensor:
        update, _ = self._between_cells(x_BRE, single_eval_pos)
        return update

    def _between_cells(
        self: Any,
        x_BRE: Tensor,
        single_eval_pos: int,
        cached_kv: KVCacheEntry | QuantizedKVCacheEntry | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """What rows take from the train rows, or from a cache.

        With it comes what test rows read of the train rows: keys and values (B, N, 1, D) of the
        first head, and presence (B, N).
        """
        gates, attention = self.gates, getattr(self, CELLS)
        p_BR = gates.presence("cells", x_BRE)
        q_BRHD = heads(attention.q_projection, x_BRE, attention.head_dim)
        if cached_kv is not None:
            train_rows = present_entry(cached_kv, q_BRHD.dtype, gates.name)
            mixed = gates.attend(CELLS, q_BRHD, *train_rows, p_BR)
            return attention.out_projection(mixed), train_rows

        train_BNE, p_BN = x_BRE[:, :single_eval_pos], p_BR[:, :single_eval_pos]
        k_BNHD = heads(attention.k_projection, train_BNE, attention.head_dim)
        v_BNHD = heads(attention.v_projection, train_BNE, attention.head_dim)
        mixed = gates.attend(CELLS, q_BRHD[:, :single_eval_pos], k_BNHD, v_BNHD, p_BN, p_BN)
        k_BN1D, v_BN1D = k_BNHD[:, :, :1], v_BNHD[:, :, :1]
        if x_BRE.shape[1] > single_eval_pos:
            q_BMHD, p_BM = q_BRHD[:, single_eval_pos:], p_BR[:, single_eval_pos:]
            of_test = gates.attend(CELLS, q_BMHD, k_BN1D, v_BN1D, p_BN, p_BM)
            mixed = torch.cat((mixed, of_test), dim=1)
        return attention.out_projection(mixed), (k_BN1D, v_BN1D, p_BN)

    def _feed_forward_update(self: Any, x: Tensor) -> Tensor:
        update: Tensor = self.gates.feed_forward(self.mlp, None, "", x)
        return update

    def _normed(self, attribute: str, x: Tensor) -> Tensor:
        return self.gates.post_norm(getattr(self, attribute), attribute, x)
