"""Twins that only a closed host needs: scaffolds that a NULL row or column does without.

Mixins before the stock classes of a generation.

Shapes: B batch, S receivers, H heads, D head width, R rows, C columns, Q CLS tokens, I inducing
vectors, N train rows, E model width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from retrofit.hosts.declare import may_hold_nulls

if TYPE_CHECKING:
    from retrofit.hosts.gates import Gates
    from retrofit.hosts.rotary import Rotary


class ScalingTwin:
    """Twin of ``SoftmaxScalingMLP`` that takes the number of sources per batch element too."""

    gates: Gates
    base_mlp: nn.Module
    query_mlp: nn.Module
    num_heads: int
    head_dim: int
    streams: tuple[str, ...] = ()

    def forward(self, q_BSHD: Tensor, n: int | Tensor) -> Tensor:
        """Queries scaled for ``n`` sources, one number or (B,)."""
        if not isinstance(n, Tensor):
            scaled: Tensor = super().forward(q_BSHD, n)  # type: ignore[misc]
            return scaled
        logn_B1 = n.to(torch.float32).clamp(min=1).log().to(q_BSHD.dtype)[:, None]
        base_B1HD = self.base_mlp(logn_B1).view(-1, 1, self.num_heads, self.head_dim)
        return q_BSHD * (base_B1HD * (1 + torch.tanh(self.query_mlp(q_BSHD))))


class InducedTwin:
    """Twin of ``InducedSelfAttentionBlock``: a NULL column has no inducing states."""

    gates: Gates
    streams: tuple[str, ...] = ()
    inducing_vectors: nn.Parameter
    cross_attn_block1: Any
    cross_attn_block2: Any

    def induce(self, train_BNE: Tensor, **compiling: bool) -> Tensor:
        """Inducing states (B, I, E) of columns whose train cells are given.

        ``compiling`` is for twins whose blocks are compiled on their own.
        """
        inducing_BIE = self.inducing_vectors.unsqueeze(0).expand(train_BNE.shape[0], -1, -1)
        if may_hold_nulls():
            present_B = (train_BNE != 0).flatten(1).any(dim=1)
            inducing_BIE = self.gates.inject("inducing_vectors", inducing_BIE, present_B[:, None])
        hidden: Tensor = self.cross_attn_block1(inducing_BIE, train_BNE, **compiling)
        return hidden

    def _induced_attention(
        self,
        x_BcRE: Tensor,
        single_eval_pos: int | None = None,
        cached_hidden: Tensor | None = None,
        *,
        return_hidden: bool = False,
        **compiling: bool,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if cached_hidden is None:
            hidden = self.induce(x_BcRE[:, :single_eval_pos], **compiling)
        else:
            hidden = cached_hidden.to(x_BcRE.dtype)
        out: Tensor = self.cross_attn_block2(x_BcRE, hidden, **compiling)
        return (out, hidden.detach()) if return_hidden else out


class AggregatorTwin:
    """Twin of ``ColumnAggregator``: a NULL row has no CLS tokens."""

    gates: Gates
    streams: tuple[str, ...] = ()
    cls_tokens: nn.Parameter
    num_cls_tokens: int
    blocks: Any
    rope: Rotary | None
    out_ln: nn.Module

    def forward(
        self,
        x_BRiCE: Tensor,
        save_peak_memory_factor: int | None = None,
        force_recompute_layer: bool = False,
        present_BR: Tensor | None = None,
        **compiling: bool,
    ) -> Tensor:
        """Rows (B, R, Q, E) from cells (B, R, C, E); all are present without ``present_BR``."""
        if present_BR is None:
            plain: Tensor = super().forward(  # type: ignore[misc]
                x_BRiCE, save_peak_memory_factor, force_recompute_layer, **compiling
            )
            return plain
        cls_BRQE = self.cls_tokens.expand(*present_BR.shape, -1, -1)
        cls_BRQE = self.gates.inject("cls_tokens", cls_BRQE, present_BR[..., None])
        x_BRSE = torch.cat((cls_BRQE, x_BRiCE), dim=2)
        for block in self.blocks[:-1]:
            x_BRSE = block(
                x_BRSE,
                rope=self.rope,
                save_peak_memory_factor=save_peak_memory_factor,
                **compiling,
            )
        cls_BRQE = x_BRSE[..., : self.num_cls_tokens, :]
        read = self.blocks[-1].forward_cross
        out: Tensor = self.out_ln(read(cls_BRQE, x_BRSE, self.rope, **compiling))
        return out
