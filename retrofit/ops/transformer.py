"""OTransformer: blocks that a NULL token passes through untouched and unnoticed.

    pre-norm    h <- h + OAttention(ONorm(h); p(h)),   h <- OFFN(h),          at the end ONorm(h)
    post-norm   h <- ONorm(h + OAttention(h; p(h))),   h <- ONorm(OFFN(h))

Every part is O-closed, and so is what they compose: M(H + NULL) = M(H) + NULL for a NULL token
inserted anywhere. Norms, projections and feed-forward carry biases, so closure is earned by the
gates and no gift of bias-free layers.

Source: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and O-Closure for
Token Dynamics", arXiv 2608.21174, 2026 (OTransformer).
Shapes: B batch, S tokens, H heads, E model width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from retrofit.ops.attention.layer import OAttention, OAttentionConfig
from retrofit.ops.errors import OperatorError
from retrofit.ops.ffn import OFFN
from retrofit.ops.norm import ONorm
from retrofit.ops.presence import presence


@dataclass(frozen=True)
class OTransformerConfig:
    """Sizes and settings of a transformer; width, heads and tau are the attention's.

    Raises:
        OperatorError: A size or the kind of norm is out of range, or the attention is not over
            the tokens themselves.
    """

    attention: OAttentionConfig
    depth: int = 2
    ffn_width: int | None = None
    """Hidden width of the feed-forward; ``None`` for four times the model width."""
    norm: Literal["layer", "rms"] = "layer"
    """LayerNorm with weight and bias, or RMSNorm with weight."""
    norm_first: bool = True

    def __post_init__(self) -> None:
        if self.depth < 0 or (self.ffn_width is not None and self.ffn_width < 1):
            raise OperatorError(f"depth must be >= 0 and ffn_width >= 1: {self}")
        if self.norm not in ("layer", "rms"):
            raise OperatorError(f"norm must be 'layer' or 'rms', got {self.norm!r}")
        if self.attention.source_width not in (None, self.attention.width):
            raise OperatorError("a transformer block attends to its own tokens: no source_width")


class OTransformerBlock(nn.Module):
    """One block: attention and feed-forward, each with its norm."""

    def __init__(self, config: OTransformerConfig) -> None:
        super().__init__()
        width, tau = config.attention.width, config.attention.tau
        hidden = 4 * width if config.ffn_width is None else config.ffn_width
        ffn = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.config = config
        self.attention_norm = _norm(config)
        self.attention = OAttention(config.attention)
        if config.norm_first:
            self.ffn = OFFN(ffn, tau, norm=_norm(config).norm)
            self.ffn_norm: ONorm | None = None
        else:
            self.ffn = OFFN(ffn, tau)
            self.ffn_norm = _norm(config)

    def forward(self, h_BSE: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the tokens after the block, (B, S, E); mask as for ``oattention``."""
        p_BS = presence(h_BSE, self.config.attention.tau)
        if self.ffn_norm is None:
            x_BSE = self.attention_norm(h_BSE, p_BS)
            h_BSE = h_BSE + self.attention(x_BSE, p_BS=p_BS, p_BJ=p_BS, mask=mask)
            h_BSE = self.ffn(h_BSE)
        else:
            h_BSE = h_BSE + self.attention(h_BSE, p_BS=p_BS, p_BJ=p_BS, mask=mask)
            h_BSE = self.ffn_norm(self.ffn(self.attention_norm(h_BSE)))
        return h_BSE


class OTransformer(nn.Module):
    """A stack of blocks, with a final norm where the blocks norm first."""

    def __init__(self, config: OTransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(OTransformerBlock(config) for _ in range(config.depth))
        self.final_norm = _norm(config) if config.norm_first else None

    def forward(self, h_BSE: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the tokens after the last block, (B, S, E); mask as for ``oattention``."""
        for block in self.blocks:
            h_BSE = block(h_BSE, mask)
        return h_BSE if self.final_norm is None else self.final_norm(h_BSE)


def _norm(config: OTransformerConfig) -> ONorm:
    make = nn.LayerNorm if config.norm == "layer" else nn.RMSNorm
    return ONorm(make(config.attention.width), config.attention.tau)
