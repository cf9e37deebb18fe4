"""OFFN: a feed-forward update that leaves NULL tokens NULL.

    OFFN(h) = h + p(h) * ffn(norm(h))

Where every norm of a model is an ONorm, so is this one: h + p(h) * ffn(p(h) * norm(h)).

Source: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and O-Closure for
Token Dynamics", arXiv 2608.21174, 2026 (OFFN).
Shapes: ``...`` any leading axes, E model width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from retrofit.ops.gate import add_gated
from retrofit.ops.presence import check_tau, presence_of

if TYPE_CHECKING:
    from collections.abc import Callable


def offn(
    ffn: Callable[[Tensor], Tensor],
    h: Tensor,
    p: Tensor,
    norm: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Return ``h + p * ffn(norm(h))``, (..., E) -> (..., E), in the dtype of ``h``.

    ``p``, (...), is the presence of the carriers ``h``, never of the normalised ones.
    """
    return add_gated(h, ffn(h if norm is None else norm(h)), p)


class OFFN(nn.Module):
    """Gate a residual feed-forward update by the presence of the carrier it is added to."""

    def __init__(self, ffn: nn.Module, tau: float, norm: nn.Module | None = None) -> None:
        super().__init__()
        check_tau(tau)
        self.ffn = ffn
        self.norm = norm
        self.tau = tau

    def forward(self, h: Tensor, p: Tensor | None = None) -> Tensor:
        """Return ``h + p * ffn(norm(h))``, (..., E) -> (..., E), in the dtype of ``h``.

        ``p``, (...), is the presence of ``h`` where the caller has it already; it is never taken
        from the normalised input.

        Raises:
            ShapeError: ``p`` is not one presence per carrier.
        """
        return offn(self.ffn, h, presence_of(h, self.tau, p), self.norm)

    def extra_repr(self) -> str:
        """Show tau beside the wrapped modules."""
        return f"tau={self.tau:g}"
