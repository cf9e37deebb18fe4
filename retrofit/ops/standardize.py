"""OStandardize: standardise over a token axis with presence-weighted moments.

    mean  = sum_j p_j x_j / sum_j p_j
    var   = sum_j p_j (x_j - mean)^2 / (sum_j p_j - correction)
    scale = sqrt(var + eps)
    OStandardize(x)_j = p_j * (x_j - mean) / scale

The weights are presences, so a NULL token moves no moment, and the factor p_j keeps it NULL. With
zero support the mean is 0 and the scale 1; the scale is 1 too where ``sum_j p_j <= correction``,
and where ``var + eps`` is 0.

Source: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and O-Closure for
Token Dynamics", arXiv 2608.21174, 2026 (OStandardize).
Shapes: ``...`` any leading axes, J tokens, E model width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from retrofit.ops.errors import OperatorError, ShapeError
from retrofit.ops.presence import work_dtype


class OStandardize(nn.Module):
    """Standardise tokens by the moments of the tokens that are there.

    Args:
        eps: Added to the variance; not negative.
        correction: Subtracted from the total presence in the variance: 0 for the population
            variance, 1 for the sample variance.

    Raises:
        OperatorError: ``eps`` or ``correction`` is negative.
    """

    def __init__(self, eps: float = 1e-5, correction: float = 0.0) -> None:
        super().__init__()
        if eps < 0 or correction < 0:
            raise OperatorError(f"eps and correction must be >= 0, got {eps!r}, {correction!r}")
        self.eps = eps
        self.correction = correction

    def forward(self, x: Tensor, p: Tensor) -> Tensor:
        """Return the standardised tokens: x (..., J, E), p (..., J) -> (..., J, E), x's dtype.

        Raises:
            ShapeError: ``p`` is not one presence per token.
        """
        mean, scale = self.moments(x, p)
        centred = _present(x, p) - mean
        return (p.unsqueeze(-1) * (centred / scale)).to(x.dtype)

    def moments(self, x: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and scale, each (..., 1, E), in float32 at least.

        Whatever stands in a token of presence 0, NaN included, is not read.

        Raises:
            ShapeError: ``p`` is not one presence per token.
        """
        if p.shape != x.shape[:-1]:
            raise ShapeError(
                f"presence must be {tuple(x.shape[:-1])}, one per token, got {tuple(p.shape)}"
            )
        x = _present(x, p)
        w = p.unsqueeze(-1).to(x.dtype)
        support = w.sum(-2, keepdim=True)
        # Where there is no support the sums are 0, and any positive divisor gives mean 0.
        mean = (w * x).sum(-2, keepdim=True) / support.where(support > 0, 1.0)
        freedom = support - self.correction
        enough = (support > 0) & (freedom > 0)
        var = (w * (x - mean).square()).sum(-2, keepdim=True) / freedom.where(enough, 1.0)
        var = var + self.eps
        return mean, var.where(enough & (var > 0), 1.0).sqrt()

    def extra_repr(self) -> str:
        """Show the settings."""
        return f"eps={self.eps:g}, correction={self.correction:g}"


def _present(x: Tensor, p: Tensor) -> Tensor:
    """Return ``x`` in its work dtype with the tokens of presence 0 set to 0."""
    x = x.to(work_dtype(x.dtype))
    return torch.where((p == 0).unsqueeze(-1), 0.0, x)
