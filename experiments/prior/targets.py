"""From signal to target: noise, then a warp of the scale on which the target is reported.

Shapes: R rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from experiments.prior.draw import Array, bernoulli, log_uniform, log_uniform_int, pick, standardise

if TYPE_CHECKING:
    from experiments.prior.config import PriorConfig


def add_noise(rng: np.random.Generator, signal_R: Array, config: PriorConfig) -> Array:
    """Add noise to a signal of unit variance: Gaussian, heavy-tailed or of uneven size."""
    bounds = config.low_noise_sd if bernoulli(rng, config.low_noise_share) else config.noise_sd
    sd = log_uniform(rng, *bounds)
    noise = rng.standard_normal(len(signal_R))
    if bernoulli(rng, config.odd_noise_share):
        if bernoulli(rng, 0.5):
            # Student-t with 4 degrees of freedom, variance 2, brought back to variance 1.
            noise /= np.sqrt(rng.chisquare(4.0, len(noise)) / 2.0)
        else:
            growth = np.exp(rng.uniform(0.2, 1.0) * signal_R)
            noise *= growth / np.sqrt(np.mean(growth**2))
    total: Array = signal_R + sd * noise
    return total


def warp(rng: np.random.Generator, y_R: Array, config: PriorConfig) -> Array:
    """The target on the scale that the learner sees."""
    kind = pick(rng, config.warps)
    z = standardise(y_R)
    if kind == "exp":
        return np.exp(log_uniform(rng, 0.2, 1.3) * np.clip(z, -5.0, 5.0))
    if kind == "power":
        return np.sign(z) * np.abs(z) ** rng.uniform(0.6, 1.8)
    if kind == "censored":
        return np.maximum(z, np.quantile(z, rng.uniform(0.02, 0.35)))
    if kind == "rounded":
        return np.round(z * log_uniform_int(rng, 1, 12))
    if kind == "uniform":
        ranks: Array = ndtr(z)
        return ranks
    if kind == "log":
        return np.log1p(np.maximum(z + rng.uniform(1.5, 4.0), 0.0))
    return z
