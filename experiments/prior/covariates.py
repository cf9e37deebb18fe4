"""The inputs of a task: how latent scores depend on each other and how they are observed.

Shapes: R rows, D latent scores. A *score* is what a signal reads; a *column* is what the
learner sees. They differ where a column is a coded category or a warped score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from experiments.prior.draw import Array, bernoulli, log_uniform, log_uniform_int, pick, standardise

if TYPE_CHECKING:
    from collections.abc import Mapping


def latent_scores(rng: np.random.Generator, rows: int, count: int) -> Array:
    """``(rows, count)`` standardised scores: independent, factor-driven or clustered."""
    own = rng.standard_normal((rows, count))
    kind = rng.random()
    if kind < 0.4 or count == 1:
        return own
    if kind < 0.82:
        rank = int(rng.integers(1, max(2, count // 2 + 1)))
        loadings = rng.standard_normal((rank, count))
        shared = standardise(rng.standard_normal((rows, rank)) @ loadings)
        share = rng.beta(1.2, 1.2, count)
        return standardise(np.sqrt(share) * shared + np.sqrt(1.0 - share) * own)
    centres = rng.standard_normal((int(rng.integers(2, 7)), count)) * log_uniform(rng, 0.7, 3.0)
    spread = rng.uniform(0.3, 1.0, (len(centres), count))
    member = rng.choice(len(centres), rows, p=rng.dirichlet(np.full(len(centres), 2.0)))
    return standardise(centres[member] + spread[member] * own)


def _cut(rng: np.random.Generator, z_R: Array, levels: int) -> np.ndarray:
    """Codes ``0 .. levels - 1`` of the score cut at random quantiles."""
    cuts = np.quantile(z_R, np.sort(rng.uniform(0.02, 0.98, levels - 1)))
    return np.searchsorted(cuts, z_R)


def observe(
    rng: np.random.Generator, z_R: Array, marginals: Mapping[str, float]
) -> tuple[Array, Array]:
    """One latent score as ``(score_R, column_R)``.

    The score is standardised; the column has the drawn marginal, in units of its own. Codes of
    categories carry no order: each level has an effect of its own.
    """
    kind = pick(rng, marginals)
    if kind == "categorical":
        levels = log_uniform_int(rng, 2, 12)
        codes = _cut(rng, z_R, levels)
        effect = rng.standard_normal(levels)
        label = rng.permutation(levels)
        return standardise(effect[codes]), label[codes].astype(np.float64)
    if kind == "binary":
        column = (z_R > np.quantile(z_R, rng.uniform(0.1, 0.9))).astype(np.float64)
        return standardise(column), column
    if kind == "integer":
        if bernoulli(rng, 0.5):
            column = np.round(z_R * log_uniform(rng, 0.7, 12.0))
        else:
            column = np.floor(np.exp(np.clip(z_R, -4.0, 4.0)) * log_uniform(rng, 0.7, 12.0))
        return standardise(column), column
    if kind == "zero_inflated":
        column = np.maximum(z_R - rng.normal(0.0, 0.6), 0.0)
        return standardise(column), column
    if kind == "uniform":
        column = ndtr(z_R)
    elif kind == "lognormal":
        column = np.exp(log_uniform(rng, 0.3, 1.6) * np.clip(z_R, -5.0, 5.0))
    elif kind == "heavy_tailed":
        column = np.sinh(rng.uniform(0.6, 1.5) * np.clip(z_R, -5.0, 5.0))
    else:
        column = z_R
    # Laws act now on the raw unit, now on a transformed one (prices and their logarithms).
    score = standardise(column) if bernoulli(rng, 0.4) else z_R
    return score, column


def hide_cells(rng: np.random.Generator, column_R: Array) -> Array:
    """A copy of the column with some cells NaN, at random or because of their value."""
    share = rng.uniform(0.01, 0.4)
    if bernoulli(rng, 0.6):
        hidden = rng.random(len(column_R)) < share
    else:
        edge = np.quantile(column_R, 1.0 - share)
        hidden = (column_R > edge) & (rng.random(len(column_R)) < 0.9)
    return np.where(hidden, np.nan, column_R)
