"""OInject: add an embedding to the tokens that are there.

    OInject(h, e) = h + p(h) * e

Position, column and target embeddings would wake a NULL token; the factor p keeps it asleep.

Source: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and O-Closure for
Token Dynamics", arXiv 2608.21174, 2026 (OInject).
Shapes: ``...`` any leading axes, E model width.
"""

from __future__ import annotations

from torch import Tensor, nn

from retrofit.ops.gate import add_gated
from retrofit.ops.presence import check_tau, presence_of


def oinject(h: Tensor, e: Tensor, p: Tensor) -> Tensor:
    """Return ``h + p * e``, (..., E) -> (..., E), in the dtype of ``h``.

    ``e`` broadcasts to ``h``; ``p``, (...), is the presence of the carriers ``h``.
    """
    return add_gated(h, e, p)


class OInject(nn.Module):
    """Add an embedding in proportion to the presence of the carrier that receives it."""

    def __init__(self, tau: float) -> None:
        super().__init__()
        check_tau(tau)
        self.tau = tau

    def forward(self, h: Tensor, e: Tensor, p: Tensor | None = None) -> Tensor:
        """Return ``h + p * e``, (..., E) -> (..., E), in the dtype of ``h``.

        ``e`` broadcasts to ``h``; ``p``, (...), is the presence of ``h`` where known already.

        Raises:
            ShapeError: ``p`` is not one presence per carrier.
        """
        return oinject(h, e, presence_of(h, self.tau, p))

    def extra_repr(self) -> str:
        """Show tau."""
        return f"tau={self.tau:g}"
