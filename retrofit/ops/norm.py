"""ONorm: a normalisation that leaves NULL tokens NULL.

    ONorm(h) = p(h) * norm(h)

An affine norm maps the zero vector to its bias; the factor p undoes that and nothing else.

Source: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and O-Closure for
Token Dynamics", arXiv 2608.21174, 2026 (ONorm).
Shapes: ``...`` any leading axes, E model width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from retrofit.ops.gate import gate
from retrofit.ops.presence import check_tau, presence_of

if TYPE_CHECKING:
    from collections.abc import Callable


def onorm(norm: Callable[[Tensor], Tensor], h: Tensor, p: Tensor) -> Tensor:
    """Return ``p * norm(h)``, (..., E) -> (..., E), in the norm's dtype.

    ``p``, (...), is the presence of the carriers ``h``.
    """
    return gate(norm(h), p)


class ONorm(nn.Module):
    """Gate any token-wise norm by the presence of its own input."""

    def __init__(self, norm: nn.Module, tau: float) -> None:
        super().__init__()
        check_tau(tau)
        self.norm = norm
        self.tau = tau

    def forward(self, h: Tensor, p: Tensor | None = None) -> Tensor:
        """Return ``p * norm(h)``, (..., E) -> (..., E), in the norm's dtype.

        ``p``, (...), is the presence of ``h`` where the caller has it already.

        Raises:
            ShapeError: ``p`` is not one presence per carrier.
        """
        return onorm(self.norm, h, presence_of(h, self.tau, p))

    def extra_repr(self) -> str:
        """Show tau beside the wrapped norm."""
        return f"tau={self.tau:g}"
