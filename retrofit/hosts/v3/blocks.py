"""O-twins of the TabPFN v3 blocks.

A twin is a subclass that a block's ``__class__`` is set to: weights, names and state-dict keys
stay, the forward changes. Presence is taken from the raw carrier, before the pre-norm, and the
receiver gate follows the output projection.

Shapes: B batch (columns or rows folded in), S receivers, J sources, R rows, C columns,
Q CLS tokens, N train rows, H heads, D head width, E model width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tabpfn.architectures.shared.chunked_evaluate import chunked_evaluate_maybe_inplace
from tabpfn.architectures.tabpfn_v3 import (
    CrossAttentionBlock,
    ICLTransformerBlock,
    RotaryEmbedding,
    TransformerBlock,
    _DtypeMatchingRMSNorm,
)
from torch import Tensor

from retrofit.hosts.gates import heads
from retrofit.hosts.kv_cache import PresentKVCacheEntry, present_entry

if TYPE_CHECKING:
    from tabpfn.architectures.kv_cache import KVCacheEntry, QuantizedKVCacheEntry

    from retrofit.hosts.gates import Gates


class OCrossAttentionBlock(CrossAttentionBlock):
    """O-twin of ``CrossAttentionBlock``; streams ``receiver``, ``source`` and ``ffn``."""

    gates: Gates
    streams = ("receiver", "source", "ffn")

    def forward(self, x_BQE: Tensor, context_BVE: Tensor) -> Tensor:
        """Receivers (B, Q, E) attend to sources (B, V, E); returns the receivers' new carriers."""
        gates, attn = self.gates, self.attn
        p_BQ = gates.presence("receiver", x_BQE)
        p_BV = gates.presence("source", context_BVE)
        receivers = gates.norm(self.layernorm_q, "layernorm_q", x_BQE, p_BQ)
        sources = gates.norm(self.layernorm_kv, "layernorm_kv", context_BVE, p_BV)

        q_BQHD = heads(attn.q_projection, receivers, attn.head_dim)
        k_BVHD = heads(attn.k_projection, sources, attn.head_dim)
        v_BVHD = heads(attn.v_projection, sources, attn.head_dim)
        if attn.softmax_scaling_layer is not None:
            q_BQHD = attn.softmax_scaling_layer(q_BQHD, gates.source_count(p_BV))
        out = attn.out_projection(gates.attend("attn", q_BQHD, k_BVHD, v_BVHD, p_BV))
        x_BQE = x_BQE + gates.emit(out, p_BQ)
        return x_BQE + gates.feed_forward(self.mlp, self.layernorm2, "layernorm2", x_BQE)


class OTransformerBlock(TransformerBlock):
    """O-twin of ``TransformerBlock`` and its CLS readout; streams ``carrier`` and ``ffn``.

    Receivers and sources are the same tokens here, so they share one tau.
    """

    gates: Gates
    streams = ("carrier", "ffn")

    def forward(
        self,
        x_BRCE: Tensor,
        rope: RotaryEmbedding | None = None,
        save_peak_memory_factor: int | None = None,
    ) -> Tensor:
        """Self-attention over the columns of each row, then the feed-forward: (B, R, C, E)."""
        # Presence belongs inside the chunks: the helper overwrites the carriers as it goes.
        x_BRCE = chunked_evaluate_maybe_inplace(
            self._attention_update,
            x_BRCE,
            save_peak_memory_factor=save_peak_memory_factor,
            residual=True,
            batch_dims=2,
            rope=rope,
        )
        return chunked_evaluate_maybe_inplace(
            self._feed_forward_update,
            x_BRCE,
            save_peak_memory_factor=save_peak_memory_factor,
            residual=True,
            batch_dims=3,
        )

    def forward_cross(
        self, query_BRQE: Tensor, context_BRCE: Tensor, rope: RotaryEmbedding | None = None
    ) -> Tensor:
        """CLS tokens (B, R, Q, E) read from the whole row (B, R, C, E)."""
        query_BQE, context_BCE = query_BRQE.flatten(0, 1), context_BRCE.flatten(0, 1)
        x_BQE = query_BQE + self._read(query_BQE, context_BCE, rope)
        x_BQE = x_BQE + self._feed_forward_update(x_BQE)
        return x_BQE.view(query_BRQE.shape)

    def _attention_update(self, x_BCE: Tensor, rope: RotaryEmbedding | None = None) -> Tensor:
        return self._read(x_BCE, x_BCE, rope)

    def _read(self, query_BQE: Tensor, context_BCE: Tensor, rope: RotaryEmbedding | None) -> Tensor:
        """What receivers (B, Q, E) take from sources (B, C, E), gated by the receivers."""
        gates, attention = self.gates, self.attention
        p_BC, context = self._normed(context_BCE)
        p_BQ, receivers = (p_BC, context) if query_BQE is context_BCE else self._normed(query_BQE)
        q_BQHD = heads(attention.q_projection, receivers, attention.head_dim)
        k_BCHD = heads(attention.k_projection, context, attention.head_dim)
        q_BQHD, k_BCHD = gates.rotate(rope, q_BQHD, p_BQ), gates.rotate(rope, k_BCHD, p_BC)
        v_BCHD = heads(attention.v_projection, context, attention.head_dim)
        out = attention.out_projection(gates.attend("attention", q_BQHD, k_BCHD, v_BCHD, p_BC))
        return gates.emit(out, p_BQ)

    def _normed(self, x_BSE: Tensor) -> tuple[Tensor, Tensor]:
        """Presence (B, S) of the carriers, and the carriers after the (gated) pre-norm."""
        p_BS = self.gates.presence("carrier", x_BSE)
        return p_BS, self.gates.norm(self.layernorm, "layernorm", x_BSE, p_BS)

    def _feed_forward_update(self, x: Tensor) -> Tensor:
        return self.gates.feed_forward(self.mlp, self.layernorm_mlp, "layernorm_mlp", x)


class OICLTransformerBlock(ICLTransformerBlock):
    """O-twin of ``ICLTransformerBlock``; streams ``carrier`` and ``ffn``."""

    gates: Gates
    streams = ("carrier", "ffn")

    def forward(
        self,
        x_BRE: Tensor,
        single_eval_pos: int,
        save_peak_memory_factor: int | None = None,
        *,
        cached_kv: KVCacheEntry | QuantizedKVCacheEntry | None = None,
        return_kv: bool = False,
    ) -> tuple[Tensor, PresentKVCacheEntry | None]:
        """All rows (B, R, E) attend to the first ``single_eval_pos``, or to a cache.

        Returns the new carriers and, with ``return_kv``, the cache entry.

        Raises:
            UnsupportedModeError: the cache was built by a model without presence.
        """
        entry: PresentKVCacheEntry | None = None
        if return_kv:
            update, entry = self._build_cache(x_BRE, single_eval_pos)
            x_BRE = x_BRE + update
        elif cached_kv is not None:
            x_BRE = x_BRE + self._from_cache(x_BRE, cached_kv)
        else:
            x_BRE = chunked_evaluate_maybe_inplace(
                self._attention_update,
                x_BRE,
                save_peak_memory_factor=save_peak_memory_factor,
                residual=True,
                batch_dims=1,
                single_eval_pos=single_eval_pos,
            )
        x_BRE = chunked_evaluate_maybe_inplace(
            self._feed_forward_update,
            x_BRE,
            save_peak_memory_factor=save_peak_memory_factor,
            residual=True,
            batch_dims=2,
        )
        return x_BRE, entry

    def _attention_update(self, x_BRE: Tensor, single_eval_pos: int | None = None) -> Tensor:
        update, *_ = self._attend(x_BRE, single_eval_pos)
        return update

    def _build_cache(
        self, x_BRE: Tensor, single_eval_pos: int
    ) -> tuple[Tensor, PresentKVCacheEntry]:
        update, k_BNHD, v_BNHD, p_BN = self._attend(x_BRE, single_eval_pos)
        test_heads = self.icl_attention.num_kv_heads_test
        if test_heads is not None:
            # A copy, so that the heads which test rows never read can be freed.
            k_BNHD = k_BNHD[:, :, :test_heads].contiguous()
            v_BNHD = v_BNHD[:, :, :test_heads].contiguous()
        return update, PresentKVCacheEntry(
            key=k_BNHD.detach(), value=v_BNHD.detach(), presence=p_BN.detach()
        )

    def _from_cache(self, x_BRE: Tensor, cached: KVCacheEntry | QuantizedKVCacheEntry) -> Tensor:
        p_BR, q_BRHD, _ = self._queries(x_BRE)
        k_BNHD, v_BNHD, p_BN = present_entry(cached, q_BRHD.dtype, self.gates.name)
        return self._emit(self._mix(q_BRHD, k_BNHD, v_BNHD, p_BN), p_BR)

    def _attend(
        self, x_BRE: Tensor, single_eval_pos: int | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gated update (B, R, E), and keys, values and presence of the train rows."""
        attention = self.icl_attention
        rows = x_BRE.shape[1]
        train = rows if single_eval_pos is None else single_eval_pos
        p_BR, q_BRHD, normed = self._queries(x_BRE)
        k_BNHD = heads(attention.k_projection, normed[:, :train], attention.head_dim)
        v_BNHD = heads(attention.v_projection, normed[:, :train], attention.head_dim)
        p_BN = p_BR[:, :train]

        test_heads = attention.num_kv_heads_test
        if test_heads is None or single_eval_pos is None or train == rows:
            mixed = self._mix(q_BRHD, k_BNHD, v_BNHD, p_BN)
        else:
            to_train = self._mix(q_BRHD[:, :train], k_BNHD, v_BNHD, p_BN)
            k_test, v_test = k_BNHD[:, :, :test_heads], v_BNHD[:, :, :test_heads]
            to_test = self._mix(q_BRHD[:, train:], k_test, v_test, p_BN)
            mixed = torch.cat((to_train, to_test), dim=1)
        return self._emit(mixed, p_BR), k_BNHD, v_BNHD, p_BN

    def _queries(self, x_BRE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Presence (B, R), queries (B, R, H, D) and normed carriers (B, R, E)."""
        p_BR = self.gates.presence("carrier", x_BRE)
        normed = self.gates.norm(self.layernorm, "layernorm", x_BRE, p_BR)
        attention = self.icl_attention
        return p_BR, heads(attention.q_projection, normed, attention.head_dim), normed

    def _mix(self, q_BRHD: Tensor, k_BNHD: Tensor, v_BNHD: Tensor, p_BN: Tensor) -> Tensor:
        scaling = self.icl_attention.softmax_scaling_layer
        if scaling is not None:
            q_BRHD = scaling(q_BRHD, self.gates.source_count(p_BN))
        return self.gates.attend("icl_attention", q_BRHD, k_BNHD, v_BNHD, p_BN)

    def _emit(self, mixed_BRE: Tensor, p_BR: Tensor) -> Tensor:
        return self.gates.emit(self.icl_attention.out_projection(mixed_BRE), p_BR)

    def _feed_forward_update(self, x_BRE: Tensor) -> Tensor:
        return self.gates.feed_forward(self.mlp, self.layernorm_mlp, "layernorm_mlp", x_BRE)


class ORMSNorm(_DtypeMatchingRMSNorm):
    """O-twin of a norm that stands alone on the residual stream; stream ``carrier``."""

    gates: Gates
    streams = ("carrier",)

    def forward(self, input: Tensor) -> Tensor:
        """``p * norm(h)`` for carriers (..., E)."""
        p = self.gates.presence("carrier", input)
        return self.gates.norm(super().forward, "", input, p)
