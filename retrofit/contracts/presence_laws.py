"""Laws of the presence: right to the last bit or two, over all carriers a float32 can hold.

Hosts take the squared norm in float32 where that is safe; what this costs has a bound of its own.

The reference is exact: a presence is a rational function of the carrier and tau.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import torch

from retrofit.contracts.figures import Figure, Setting, worst
from retrofit.ops import presence
from retrofit.ops.one_pass import one_squared_norm, presence_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_WIDTHS = (1, 32, 384)
_TAUS = (1e-30, 1e-6, 1.0)
HOST_ULPS = (1.0, 3.0)
"""Of a host's presence p: so many, and so many more times (1 - p)."""
HOST_BOUND = f"({HOST_ULPS[0]:g} + {HOST_ULPS[1]:g} (1 - p))"


def extreme_carriers(setting: Setting) -> list[Figure]:
    """Compare presences of carriers with norms from 1e-18 to 1e18 with exact ones.

    float16 carriers go from 1e-7 to 1e4 instead, about what float16 holds.
    """
    span = (-7.0, 4.0) if setting.dtype == torch.float16 else (-18.0, 18.0)
    figures = []
    for width in _WIDTHS:
        h = _carriers(setting, span, width)
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


def host_path(setting: Setting) -> list[Figure]:
    """Compare presences by the hosts' one reduction with exact ones, in units of their bound.

    Carriers that all lie in float32's safe range, and others among them: two ways.
    """
    figures: list[Figure] = []
    for width in _WIDTHS:
        for case, span in (("|h| 1e-13 to 1e18", (-13.0, 18.0)), ("1e-18 to 1e22", (-18.0, 22.0))):
            h = _carriers(setting, span, width)
            n = one_squared_norm(h)
            if n is None or setting.dtype == torch.float64:
                return []
            excess = []
            for tau in _TAUS:
                got = presence_by(n, tau, h.dtype).tolist()
                want = [exact_presence(row, tau) for row in h.double().tolist()]
                excess += [
                    _relative_error(g, w) / (HOST_ULPS[0] + HOST_ULPS[1] * (1 - float(w)))
                    for g, w in zip(got, want, strict=True)
                ]
            figures.append(
                Figure(
                    law="presence in hosts",
                    case=f"relative error / {HOST_BOUND}, {case}, {width} wide",
                    linf=worst(excess),
                    bound=torch.finfo(torch.float32).eps,
                    basis="1 ulp: a float32 sum moves p by (1 - p) times its own error",
                    ulp=torch.finfo(torch.float32).eps,
                )
            )
    return figures


def _carriers(setting: Setting, span: tuple[float, float], width: int) -> Tensor:
    """Carriers (73, width) with norms from 10**span[0] to 10**span[1]."""
    generator = torch.Generator().manual_seed(setting.seed)
    norms = torch.logspace(*span, 73, dtype=torch.float64)
    h = torch.randn((len(norms), width), generator=generator, dtype=torch.float64)
    scale: Tensor = norms[:, None] / h.norm(dim=-1, keepdim=True)
    return (h * scale).to(setting.device, setting.dtype)


def exact_presence(h: list[float], tau: float) -> Fraction:
    """Return ``n / (tau + n)`` of one carrier without rounding."""
    n = sum((Fraction(x) ** 2 for x in h), Fraction())
    return n / (Fraction(tau) + n)


def _relative_error(got: float, want: Fraction) -> float:
    return float(abs(Fraction(got) / want - 1)) if want else abs(got)


PRESENCE_LAWS: dict[str, Callable[[Setting], list[Figure]]] = {
    "extreme_carriers": extreme_carriers,
    "origin": origin,
    "host_path": host_path,
}
