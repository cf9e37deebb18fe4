"""Laws of the presence: right to the last bit or two, over all carriers a float32 can hold.

The reference is exact: a presence is a rational function of the carrier and tau.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import torch

from retrofit.contracts.figures import Figure, Setting, worst
from retrofit.ops import presence

if TYPE_CHECKING:
    from collections.abc import Callable

_WIDTHS = (1, 32, 384)
_TAUS = (1e-30, 1e-6, 1.0)


def extreme_carriers(setting: Setting) -> list[Figure]:
    """Compare presences of carriers with norms from 1e-18 to 1e18 with exact ones.

    float16 carriers go from 1e-7 to 1e4 instead, about what float16 holds.
    """
    span = (-7.0, 4.0) if setting.dtype == torch.float16 else (-18.0, 18.0)
    generator = torch.Generator().manual_seed(setting.seed)
    norms = torch.logspace(*span, 73, dtype=torch.float64)
    figures = []
    for width in _WIDTHS:
        h = torch.randn((len(norms), width), generator=generator, dtype=torch.float64)
        h = h / h.norm(dim=-1, keepdim=True) * norms[:, None]
        h = h.to(setting.device, setting.dtype)
        errors = []
        for tau in _TAUS:
            got = presence(h, tau).double().cpu().tolist()
            want = [exact_presence(row, tau) for row in h.double().cpu().tolist()]
            errors += [_relative_error(g, w) for g, w in zip(got, want, strict=True)]
        eps = torch.finfo(setting.presence_dtype).eps
        figures.append(
            Figure(
                law="presence",
                case=f"relative error, |h| 1e{span[0]:.0f} to 1e{span[1]:.0f}, {width} wide",
                linf=worst(errors),
                bound=eps * (2 if eps > 1e-15 else 16),
                basis="2 ulp of the result, 16 where no wider type holds the sum of squares",
                ulp=eps,
            )
        )
    return figures


def origin(setting: Setting) -> list[Figure]:
    """Check that presence is 0 at the origin, and not at the smallest carrier."""
    zero = torch.zeros(1, 32, device=setting.device, dtype=setting.dtype)
    tiny = torch.full_like(zero, 3e-8)
    p_zero = float(presence(zero, 1e-6))
    p_tiny = float(presence(tiny, 1e-6))
    want = float(exact_presence(tiny[0].double().cpu().tolist(), 1e-6))
    eps = torch.finfo(setting.presence_dtype).eps
    return [
        Figure("presence", "at the origin", abs(p_zero), 0.0, "exactly 0", eps),
        Figure(
            "presence",
            "relative error, 32 components of 3e-8, tau 1e-6",
            abs(p_tiny / want - 1),
            2 * eps,
            "2 ulp of the result",
            eps,
        ),
    ]


def exact_presence(h: list[float], tau: float) -> Fraction:
    """Return ``n / (tau + n)`` of one carrier without rounding."""
    n = sum((Fraction(x) ** 2 for x in h), Fraction())
    return n / (Fraction(tau) + n)


def _relative_error(got: float, want: Fraction) -> float:
    return float(abs(Fraction(got) / want - 1)) if want else abs(got)


PRESENCE_LAWS: dict[str, Callable[[Setting], list[Figure]]] = {
    "extreme_carriers": extreme_carriers,
    "origin": origin,
}
