"""OAttention, the module: projections, heads, and the receiver's gate after the output projection.

    out_i = p_i * W_o concat_heads(oattention(W_q x_i, W_k y_j, W_v y_j; p_j, m_ij))

The gate stands after the projection, so that an output bias cannot wake a NULL receiver; a
receiver that no source supports gets 0 too. The formula is in ``formula.py``.

Source: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and O-Closure for
Token Dynamics", arXiv 2608.21174, 2026 (OAttention).
Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width, E model width,
F width of the sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from retrofit.ops.attention.functional import oattention
from retrofit.ops.attention.support import receiver_presence
from retrofit.ops.errors import OperatorError, ShapeError
from retrofit.ops.gate import gate
from retrofit.ops.presence import check_tau, presence_of
from retrofit.words import DEFAULT_EPS_DEN, DEFAULT_EPS_MODE, EpsMode

if TYPE_CHECKING:
    from retrofit.ops.attention.dispatch import Backend


@dataclass(frozen=True)
class OAttentionConfig:
    """Sizes and settings of an attention layer.

    Raises:
        OperatorError: The sizes do not fit together, or ``tau`` is not positive and finite.
    """

    width: int
    """E, of the receivers and of the output."""
    heads: int
    kv_heads: int | None = None
    """Fewer than ``heads`` for grouped queries; ``None`` for as many."""
    source_width: int | None = None
    """F, of the sources in cross-attention; ``None`` for E."""
    bias: bool = True
    """Whether the four projections have a bias."""
    tau: float = 1e-6
    eps_den: float = DEFAULT_EPS_DEN
    eps_mode: EpsMode = DEFAULT_EPS_MODE
    backend: Backend = "auto"

    def __post_init__(self) -> None:
        check_tau(self.tau)
        kv_heads = self.heads if self.kv_heads is None else self.kv_heads
        if min(self.width, self.heads, kv_heads) < 1:
            raise OperatorError(f"width and heads must be at least 1: {self}")
        if self.width % self.heads or self.heads % kv_heads:
            raise OperatorError(
                f"width {self.width} must be a multiple of {self.heads} heads, and those of "
                f"{kv_heads} kv heads"
            )


class OAttention(nn.Module):
    """Self- or cross-attention in which tokens take part in proportion to their presence."""

    def __init__(self, config: OAttentionConfig) -> None:
        super().__init__()
        kv_heads = config.heads if config.kv_heads is None else config.kv_heads
        source_width = config.width if config.source_width is None else config.source_width
        kv_width = config.width // config.heads * kv_heads
        self.config = config
        self.kv_heads = kv_heads
        self.q_projection = nn.Linear(config.width, config.width, bias=config.bias)
        self.k_projection = nn.Linear(source_width, kv_width, bias=config.bias)
        self.v_projection = nn.Linear(source_width, kv_width, bias=config.bias)
        self.out_projection = nn.Linear(config.width, config.width, bias=config.bias)

    def forward(
        self,
        x_BSE: Tensor,
        y_BJF: Tensor | None = None,
        *,
        p_BS: Tensor | None = None,
        p_BJ: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return the gated update of the receivers, (B, S, E).

        Args:
            x_BSE: Receivers.
            y_BJF: Sources; ``None`` for self-attention.
            p_BS: Presence of the receivers; ``None`` where ``x_BSE`` is itself the carrier. Pass
                it where ``x_BSE`` has been normalised: presence belongs to the carrier.
            p_BJ: Presence of the sources, likewise.
            mask: Visibility, broadcastable to (B, H, S, J), as for ``oattention``.

        Raises:
            ShapeError: A token axis or width does not fit.
        """
        config = self.config
        if x_BSE.dim() != 3 or (y_BJF is not None and y_BJF.dim() != 3):
            raise ShapeError(f"tokens must be (B, tokens, width), got {tuple(x_BSE.shape)}")
        self._check_widths(x_BSE, x_BSE if y_BJF is None else y_BJF)
        p_BS = presence_of(x_BSE, config.tau, p_BS)
        if y_BJF is None:
            y_BJF = x_BSE
            p_BJ = p_BS if p_BJ is None else p_BJ
        else:
            p_BJ = presence_of(y_BJF, config.tau, p_BJ)
        out_BHSD = oattention(
            _heads(self.q_projection(x_BSE), config.heads),
            _heads(self.k_projection(y_BJF), self.kv_heads),
            _heads(self.v_projection(y_BJF), self.kv_heads),
            None,
            p_BJ,
            mask=mask,
            eps_den=config.eps_den,
            eps_mode=config.eps_mode,
            backend=config.backend,
        )
        if self.out_projection.bias is not None:
            p_BS = receiver_presence(p_BS, p_BJ, mask)
        return gate(self.out_projection(out_BHSD.transpose(1, 2).flatten(2)), p_BS)

    def _check_widths(self, x_BSE: Tensor, y_BJF: Tensor) -> None:
        wanted = self.q_projection.in_features, self.k_projection.in_features
        if (x_BSE.shape[-1], y_BJF.shape[-1]) != wanted:
            raise ShapeError(
                f"receivers must be {wanted[0]} wide and sources {wanted[1]}, "
                f"got {x_BSE.shape[-1]} and {y_BJF.shape[-1]}"
            )


def _heads(x_BTE: Tensor, heads: int) -> Tensor:
    batch, tokens, width = x_BTE.shape
    return x_BTE.reshape(batch, tokens, heads, width // heads).transpose(1, 2)
