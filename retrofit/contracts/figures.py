"""What a law returns: a measured figure beside the bound it must keep, never a bare yes or no."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from retrofit.ops import Backend


Kind = Literal["function", "module", "twin", "control"]
"""A function of ``retrofit.ops``, a module, the twin of a host's block; or torch's own function, to
compare with."""


@dataclass(frozen=True)
class Setting:
    """What a law is measured with: the kernel, the dtype, the device and the seed of the inputs."""

    kernel: Backend
    dtype: torch.dtype
    device: str = "cpu"
    seed: int = 0

    @property
    def presence_dtype(self) -> torch.dtype:
        """Dtype that presences come in."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32


@dataclass(frozen=True)
class Figure:
    """One measurement of one law."""

    law: str
    case: str
    """Which inputs, in a few words."""
    linf: float
    """Largest absolute deviation that was seen; NaN where one was."""
    bound: float
    """Largest deviation that the law allows."""
    basis: str
    """Where the bound comes from."""
    ulp: float
    """One unit in the last place of the largest value compared."""
    kind: Kind = "function"
    """What was measured."""

    @property
    def ulps(self) -> float:
        """The deviation in units in the last place."""
        return self.linf / self.ulp

    @property
    def holds(self) -> bool:
        """Whether the law was kept; a NaN keeps no law."""
        return self.linf <= self.bound


def ulp_at(value: float, dtype: torch.dtype) -> float:
    """Return the distance between neighbouring numbers of ``dtype`` at the size of ``value``."""
    if not math.isfinite(value) or value == 0.0:
        return torch.finfo(dtype).eps
    return math.ldexp(torch.finfo(dtype).eps, math.frexp(abs(value))[1] - 1)


def deviation(got: Tensor, want: Tensor) -> float:
    """Return ``max |got - want|`` taken in float64; NaN if anything is not finite; 0 if empty."""
    difference = (got.double().cpu() - want.double().cpu()).abs()
    return largest(difference)


def largest(values: Tensor) -> float:
    """Return ``max |values|``; NaN if anything is not finite; 0 if empty."""
    if values.numel() == 0:
        return 0.0
    if not values.isfinite().all():
        return math.nan
    return float(values.double().abs().max())


def worst(deviations: list[float]) -> float:
    """Return the largest deviation; NaN if any is."""
    return math.nan if any(math.isnan(x) for x in deviations) else max(deviations, default=0.0)
