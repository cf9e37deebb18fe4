"""Small random draws that every part of the prior shares. Arrays are float64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = npt.NDArray[np.float64]


def pick(rng: np.random.Generator, weights: Mapping[str, float]) -> str:
    """One key of ``weights``, drawn in proportion to its value."""
    names = list(weights)
    cumulative = np.cumsum([weights[name] for name in names])
    position = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return names[min(int(position), len(names) - 1)]


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number between ``low`` and ``high`` whose logarithm is uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def log_uniform_int(rng: np.random.Generator, low: int, high: int) -> int:
    """A log-uniform integer in ``[low, high]``, both ends included."""
    return min(high, int(log_uniform(rng, low, high + 1)))


def standardise(values: Array) -> Array:
    """Shift and scale along the first axis to mean 0 and variance 1; constants become 0."""
    centred = values - values.mean(axis=0)
    spread = np.sqrt(np.mean(centred * centred, axis=0))
    scaled: Array = centred / np.where(spread > 1e-9, spread, 1.0)
    return scaled


def importances(rng: np.random.Generator, count: int) -> Array:
    """``count`` positive weights with unit sum of squares, from equal to very unequal."""
    weights = np.exp(rng.standard_normal(count) * rng.uniform(0.0, 1.5))
    scaled: Array = weights / math.sqrt(float(weights @ weights))
    return scaled


def bernoulli(rng: np.random.Generator, probability: float) -> bool:
    """True with the given probability."""
    return bool(rng.random() < probability)


def signs(rng: np.random.Generator, count: int) -> npt.NDArray[Any]:
    """``count`` random signs, each -1 or 1."""
    return rng.integers(0, 2, count) * 2 - 1
