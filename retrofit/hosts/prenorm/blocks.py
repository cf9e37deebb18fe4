"""What O-twins of pre-norm blocks do, as mixins before the stock classes of a generation.

A twin is a subclass that a block's ``__class__`` is set to: weights, names and state-dict keys
stay, the forward changes. Presence is taken from the raw carrier, before the pre-norm. No output
projection has a bias, so the receiver gate stands inside the attention, at no cost. In some
generations queries and keys have norms of their own, one by head and after the rotation.

Shapes: B batch (columns or rows folded in), S receivers, J sources, R rows, C columns,
Q CLS tokens, N train rows, H heads, D head width, E model width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tabpfn.architectures.shared.chunked_evaluate import chunked_evaluate_maybe_inplace
from torch import Tensor, nn

from retrofit.hosts.gates import heads
from retrofit.hosts.kv_cache import PresentKVCacheEntry, present_entry

if TYPE_CHECKING:
    from tabpfn.architectures.kv_cache import KVCacheEntry, QuantizedKVCacheEntry

    from retrofit.hosts.gates import Gates
    from retrofit.hosts.rotary import Rotary


def _normed_heads(attention: Any, attribute: str, t_BSHD: Tensor) -> Tensor:
    """Queries or keys after the norm of their heads, where the attention has one."""
    norm = getattr(attention, attribute, None)
    return t_BSHD if norm is None else norm(t_BSHD)


def _mixed(
    gates: Gates,
    attribute: str,
    q_BSHD: Tensor,
    k_BJHD: Tensor,
    v_BJHD: Tensor,
    p_BJ: Tensor,
    p_BS: Tensor,
) -> Tensor:
    """``Gates.attend`` in the dtype of the values, which norms of heads widen under autocast."""
    dtype = v_BJHD.dtype
    return gates.attend(attribute, q_BSHD.to(dtype), k_BJHD.to(dtype), v_BJHD, p_BJ, p_BS)


class CrossTwin:
    """O-twin of ``CrossAttentionBlock``; streams ``receiver``, ``source`` and ``ffn``."""

    gates: Gates
    attn: Any
    mlp: nn.Module
    layernorm_q: nn.Module
    layernorm_kv: nn.Module
    layernorm2: nn.Module
    streams = ("receiver", "source", "ffn")

    def forward(self, x_BQE: Tensor, context_BVE: Tensor) -> Tensor:
        """Receivers (B, Q, E) attend to sources (B, V, E); returns the receivers' new carriers."""
        gates, attn = self.gates, self.attn
        p_BQ, receivers = gates.carrier("receiver", self.layernorm_q, "layernorm_q", x_BQE)
        p_BV, sources = gates.carrier("source", self.layernorm_kv, "layernorm_kv", context_BVE)

        q_BQHD = heads(attn.q_projection, receivers, attn.head_dim)
        k_BVHD = heads(attn.k_projection, sources, attn.head_dim)
        v_BVHD = heads(attn.v_projection, sources, attn.head_dim)
        q_BQHD = _normed_heads(attn, "q_norm", q_BQHD)
        k_BVHD = _normed_heads(attn, "k_norm", k_BVHD)
        if attn.softmax_scaling_layer is not None:
            q_BQHD = attn.softmax_scaling_layer(q_BQHD, gates.source_count(p_BV))
        mixed = _mixed(gates, "attn", q_BQHD, k_BVHD, v_BVHD, p_BV, p_BQ)
        x_BQE = gates.add(x_BQE, attn.out_projection(mixed))
        return gates.add_feed_forward(self.mlp, self.layernorm2, "layernorm2", x_BQE, owned=True)


class RowTwin:
    """O-twin of ``TransformerBlock`` and its CLS readout; streams ``carrier`` and ``ffn``.

    Receivers and sources are the same tokens here, so they share one tau.
    """

    gates: Gates
    attention: Any
    mlp: nn.Module
    layernorm: nn.Module
    layernorm_mlp: nn.Module
    streams = ("carrier", "ffn")

    def forward(
        self,
        x_BRCE: Tensor,
        rope: Rotary | None = None,
        save_peak_memory_factor: int | None = None,
        **compiling: bool,
    ) -> Tensor:
        """Self-attention over the columns of each row, then the feed-forward: (B, R, C, E).

        ``compiling`` is for twins whose two halves are compiled on their own.
        """
        # Presence belongs inside the chunks: the helper overwrites the carriers as it goes.
        x_BRCE = chunked_evaluate_maybe_inplace(
            self._attend,
            x_BRCE.contiguous(),
            save_peak_memory_factor=save_peak_memory_factor,
            residual=False,
            batch_dims=2,
            rope=rope,
            owned=save_peak_memory_factor is not None,
            **compiling,
        )
        return chunked_evaluate_maybe_inplace(
            self._feed_forward,
            x_BRCE,
            save_peak_memory_factor=save_peak_memory_factor,
            residual=False,
            batch_dims=3,
            **compiling,
        )

    def forward_cross(
        self, query_BRQE: Tensor, context_BRCE: Tensor, rope: Rotary | None = None
    ) -> Tensor:
        """CLS tokens (B, R, Q, E) read from the whole row (B, R, C, E)."""
        query_BQE, context_BCE = query_BRQE.flatten(0, 1), context_BRCE.flatten(0, 1)
        x_BQE = self._read(query_BQE, context_BCE, rope)
        return self._feed_forward(x_BQE).view(query_BRQE.shape)

    def _attend(self, x_BCE: Tensor, rope: Rotary | None = None, owned: bool = False) -> Tensor:
        return self._read(x_BCE, x_BCE, rope, owned=owned)

    def _read(
        self,
        query_BQE: Tensor,
        context_BCE: Tensor,
        rope: Rotary | None,
        owned: bool = False,
    ) -> Tensor:
        """Receivers (B, Q, E) after they have read from sources (B, C, E)."""
        gates, attention = self.gates, self.attention
        p_BC, context = self._normed(context_BCE)
        p_BQ, receivers = (p_BC, context) if query_BQE is context_BCE else self._normed(query_BQE)
        q_BQHD = heads(attention.q_projection, receivers, attention.head_dim)
        k_BCHD = heads(attention.k_projection, context, attention.head_dim)
        q_BQHD, k_BCHD = gates.rotate(rope, q_BQHD, p_BQ), gates.rotate(rope, k_BCHD, p_BC)
        q_BQHD = _normed_heads(attention, "q_norm", q_BQHD)
        k_BCHD = _normed_heads(attention, "k_norm", k_BCHD)
        v_BCHD = heads(attention.v_projection, context, attention.head_dim)
        mixed = _mixed(gates, "attention", q_BQHD, k_BCHD, v_BCHD, p_BC, p_BQ)
        return gates.add(query_BQE, attention.out_projection(mixed), owned=owned)

    def _normed(self, x_BSE: Tensor) -> tuple[Tensor, Tensor]:
        """Presence (B, S) of the carriers, and the carriers after the (gated) pre-norm."""
        return self.gates.carrier("carrier", self.layernorm, "layernorm", x_BSE)

    def _feed_forward(self, x: Tensor) -> Tensor:
        """Carriers after the feed-forward, in the place of those that the attention made."""
        norm = self.layernorm_mlp
        return self.gates.add_feed_forward(self.mlp, norm, "layernorm_mlp", x, owned=True)


class ICLTwin:
    """O-twin of ``ICLTransformerBlock``; streams ``carrier`` and ``ffn``."""

    gates: Gates
    icl_attention: Any
    mlp: nn.Module
    layernorm: nn.Module
    layernorm_mlp: nn.Module
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
            x_BRE, entry = self._build_cache(x_BRE, single_eval_pos)
        elif cached_kv is not None:
            x_BRE = self._from_cache(x_BRE, cached_kv)
        else:
            x_BRE = chunked_evaluate_maybe_inplace(
                self._attended,
                x_BRE.contiguous(),
                save_peak_memory_factor=save_peak_memory_factor,
                residual=False,
                batch_dims=1,
                single_eval_pos=single_eval_pos,
                owned=save_peak_memory_factor is not None,
            )
        x_BRE = chunked_evaluate_maybe_inplace(
            self._feed_forward,
            x_BRE,
            save_peak_memory_factor=save_peak_memory_factor,
            residual=False,
            batch_dims=2,
        )
        return x_BRE, entry

    def _attended(
        self, x_BRE: Tensor, single_eval_pos: int | None = None, owned: bool = False
    ) -> Tensor:
        x_BRE, *_ = self._attend(x_BRE, single_eval_pos, owned=owned)
        return x_BRE

    def _build_cache(
        self, x_BRE: Tensor, single_eval_pos: int
    ) -> tuple[Tensor, PresentKVCacheEntry]:
        x_BRE, k_BNHD, v_BNHD, p_BN = self._attend(x_BRE, single_eval_pos)
        test_heads = self.icl_attention.num_kv_heads_test
        if test_heads is not None:
            # A copy, so that the heads which test rows never read can be freed.
            k_BNHD = k_BNHD[:, :, :test_heads].contiguous()
            v_BNHD = v_BNHD[:, :, :test_heads].contiguous()
        return x_BRE, PresentKVCacheEntry(
            key=k_BNHD.detach(), value=v_BNHD.detach(), presence=p_BN.detach()
        )

    def _from_cache(self, x_BRE: Tensor, cached: KVCacheEntry | QuantizedKVCacheEntry) -> Tensor:
        p_BR, q_BRHD, _ = self._queries(x_BRE)
        k_BNHD, v_BNHD, p_BN = present_entry(cached, q_BRHD.dtype, self.gates.name)
        return self._add(x_BRE, self._mix(q_BRHD, k_BNHD, v_BNHD, p_BN, p_BR))

    def _attend(
        self, x_BRE: Tensor, single_eval_pos: int | None, owned: bool = False
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """New carriers (B, R, E), and keys, values and presence of the train rows."""
        attention = self.icl_attention
        rows = x_BRE.shape[1]
        train = rows if single_eval_pos is None else single_eval_pos
        p_BR, q_BRHD, normed = self._queries(x_BRE)
        k_BNHD = heads(attention.k_projection, normed[:, :train], attention.head_dim)
        v_BNHD = heads(attention.v_projection, normed[:, :train], attention.head_dim)
        k_BNHD = _normed_heads(attention, "k_norm", k_BNHD).to(v_BNHD.dtype)
        p_BN = p_BR[:, :train]

        test_heads = attention.num_kv_heads_test
        if test_heads is None or single_eval_pos is None or train == rows:
            mixed = self._mix(q_BRHD, k_BNHD, v_BNHD, p_BN, p_BR)
        else:
            to_train = self._mix(q_BRHD[:, :train], k_BNHD, v_BNHD, p_BN, p_BN)
            k_test, v_test = k_BNHD[:, :, :test_heads], v_BNHD[:, :, :test_heads]
            to_test = self._mix(q_BRHD[:, train:], k_test, v_test, p_BN, p_BR[:, train:])
            mixed = torch.cat((to_train, to_test), dim=1)
        return self._add(x_BRE, mixed, owned=owned), k_BNHD, v_BNHD, p_BN

    def _queries(self, x_BRE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Presence (B, R), projected queries (B, R, H, D) and normed carriers (B, R, E)."""
        p_BR, normed = self.gates.carrier("carrier", self.layernorm, "layernorm", x_BRE)
        attention = self.icl_attention
        return p_BR, heads(attention.q_projection, normed, attention.head_dim), normed

    def _mix(
        self, q_BRHD: Tensor, k_BNHD: Tensor, v_BNHD: Tensor, p_BN: Tensor, p_BR: Tensor
    ) -> Tensor:
        q_BRHD = _normed_heads(self.icl_attention, "q_norm", q_BRHD)
        scaling = self.icl_attention.softmax_scaling_layer
        if scaling is not None:
            q_BRHD = scaling(q_BRHD, self.gates.source_count(p_BN))
        return _mixed(self.gates, "icl_attention", q_BRHD, k_BNHD, v_BNHD, p_BN, p_BR)

    def _add(self, x_BRE: Tensor, mixed_BRE: Tensor, owned: bool = False) -> Tensor:
        return self.gates.add(x_BRE, self.icl_attention.out_projection(mixed_BRE), owned=owned)

    def _feed_forward(self, x: Tensor) -> Tensor:
        """Carriers after the feed-forward, in the place of those that the attention made."""
        norm = self.layernorm_mlp
        return self.gates.add_feed_forward(self.mlp, norm, "layernorm_mlp", x, owned=True)


class NormTwin:
    """O-twin of a norm that stands alone on the residual stream; stream ``carrier``."""

    gates: Gates
    streams = ("carrier",)

    def forward(self, input: Tensor) -> Tensor:
        """``p * norm(h)`` for carriers (..., E)."""
        stock = super().forward  # type: ignore[misc]
        _, out = self.gates.carrier("carrier", stock, "", input)
        return out
