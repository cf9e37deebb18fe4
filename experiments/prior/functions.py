"""Random functions of several variables: the signals of the prior.

Shapes: R rows, D inputs. Every family maps standardised inputs ``u_RD`` to a signal ``(R,)``
of mean 0 and variance 1 over the rows given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.prior.draw import Array, bernoulli, importances, log_uniform, signs, standardise

if TYPE_CHECKING:
    from collections.abc import Callable


def curve(rng: np.random.Generator, u_R: Array) -> Array:
    """A random function of one variable, standardised over the rows."""
    kind = rng.integers(10)
    shift = rng.normal(0.0, 0.8)
    scale = log_uniform(rng, 0.5, 3.0)
    if kind <= 1:
        out = u_R
    elif kind == 2:
        out = np.maximum(u_R - shift, 0.0)
    elif kind == 3:
        out = (u_R > shift).astype(np.float64)
    elif kind == 4:
        out = np.sin(scale * (u_R - shift))
    elif kind == 5:
        out = (u_R - shift) ** 2
    elif kind == 6:
        out = np.tanh(2.0 * scale * (u_R - shift))
    elif kind == 7:
        out = np.exp(-0.5 * (scale * (u_R - shift)) ** 2)
    elif kind == 8:
        out = np.log1p(np.exp(np.clip(2.0 * scale * (u_R - shift), -30.0, 30.0)))
    else:
        knots = np.sort(rng.normal(0.0, 1.2, rng.integers(3, 9)))
        out = np.interp(u_R, knots, rng.standard_normal(len(knots)).cumsum())
    return standardise(out)


def linear(rng: np.random.Generator, u_RD: Array) -> Array:
    """A weighted sum of the inputs."""
    count = u_RD.shape[1]
    return standardise(u_RD @ (importances(rng, count) * signs(rng, count)))


def additive(rng: np.random.Generator, u_RD: Array) -> Array:
    """A weighted sum of random curves, one per input."""
    count = u_RD.shape[1]
    weights = importances(rng, count) * signs(rng, count)
    total = np.zeros(len(u_RD))
    for column in range(count):
        total += weights[column] * curve(rng, u_RD[:, column])
    return standardise(total)


def _pair_term(rng: np.random.Generator, a_R: Array, b_R: Array) -> Array:
    """One interaction of two inputs, standardised."""
    kind = rng.integers(5)
    if kind == 0:
        out = a_R * b_R
    elif kind == 1:
        out = curve(rng, a_R) * curve(rng, b_R)
    elif kind == 2:
        out = a_R * (b_R > rng.normal(0.0, 0.7))
    elif kind == 3:
        out = np.minimum(a_R, b_R + rng.normal(0.0, 0.5))
    else:
        out = curve(rng, a_R + rng.normal() * b_R)
    return standardise(out)


def interactions(rng: np.random.Generator, u_RD: Array) -> Array:
    """An additive signal plus random interactions of input pairs."""
    count = u_RD.shape[1]
    if count < 2:
        return additive(rng, u_RD)
    total = np.zeros(len(u_RD))
    for _ in range(int(rng.integers(1, min(2 * count, 8) + 1))):
        first, second = rng.choice(count, 2, replace=False)
        total += rng.normal() * _pair_term(rng, u_RD[:, first], u_RD[:, second])
    main = linear(rng, u_RD) if bernoulli(rng, 0.4) else additive(rng, u_RD)
    return standardise(standardise(total) + log_uniform(rng, 0.3, 4.0) * main)


def _tree(rng: np.random.Generator, u_RD: Array, depth: int, odds_D: Array) -> Array:
    """The leaf values of one random axis-aligned tree whose thresholds are data values."""
    rows, count = u_RD.shape
    node_R = np.zeros(rows, dtype=np.int64)
    every_row = np.arange(rows)
    for level in range(depth):
        split_on = rng.choice(count, 2**level, p=odds_D)
        threshold = u_RD[rng.integers(0, rows, 2**level), split_on]
        node_R = 2 * node_R + (u_RD[every_row, split_on[node_R]] > threshold[node_R])
    leaves = rng.standard_normal(2**depth)
    if bernoulli(rng, 0.5):
        # Leaves that inherit from their ancestors make neighbours alike, as in fitted trees.
        for level in range(1, depth):
            leaves += np.repeat(rng.standard_normal(2**level), 2 ** (depth - level))
    values: Array = leaves[node_R]
    return values


def forest(rng: np.random.Generator, u_RD: Array) -> Array:
    """A sum of one to thirty random trees of depth one to six."""
    odds = importances(rng, u_RD.shape[1]) ** 2
    trees = int(log_uniform(rng, 1.0, 31.0))
    depth = int(rng.integers(1 if trees > 3 else 2, 7))
    total = np.zeros(len(u_RD))
    for _ in range(trees):
        total += _tree(rng, u_RD, depth, odds)
    return standardise(total)


_ACTIVATIONS: tuple[Callable[[Array], Array], ...] = (
    np.tanh,
    lambda z: np.maximum(z, 0.0),
    np.sin,
    np.abs,
    lambda z: z / (1.0 + np.abs(z)),
)


def mlp(rng: np.random.Generator, u_RD: Array) -> Array:
    """A random network of one to three hidden layers."""
    count = u_RD.shape[1]
    state = u_RD * importances(rng, count) * np.sqrt(count)
    activation = _ACTIVATIONS[rng.integers(len(_ACTIVATIONS))]
    gain = log_uniform(rng, 0.5, 2.5)
    for _ in range(int(rng.integers(1, 4))):
        width = int(log_uniform(rng, 4.0, 48.0))
        weights = rng.standard_normal((state.shape[1], width)) * (gain / np.sqrt(state.shape[1]))
        state = activation(state @ weights + rng.normal(0.0, 0.7, width))
    return standardise(state @ rng.standard_normal(state.shape[1]))


def fourier(rng: np.random.Generator, u_RD: Array) -> Array:
    """A draw of a Gaussian process by random Fourier features, one length per input."""
    count = u_RD.shape[1]
    features = 96
    frequencies = rng.standard_normal((count, features))
    if bernoulli(rng, 0.4):
        # Student-t frequencies (3 degrees of freedom) give a Matern kernel: rougher draws.
        frequencies /= np.sqrt(rng.chisquare(3.0, features) / 3.0)
    frequencies *= (importances(rng, count) * log_uniform(rng, 0.4, 3.0))[:, None]
    phase = rng.uniform(0.0, 2.0 * np.pi, features)
    return standardise(np.cos(u_RD @ frequencies + phase) @ rng.standard_normal(features))


def product(rng: np.random.Generator, u_RD: Array) -> Array:
    """A multiplicative law: the exponential of a weighted sum, or a product of curves."""
    if bernoulli(rng, 0.5):
        inner = linear(rng, u_RD) if bernoulli(rng, 0.5) else additive(rng, u_RD)
        return standardise(np.exp(np.clip(rng.uniform(0.3, 1.2) * inner, -6.0, 6.0)))
    total = np.ones(len(u_RD))
    chosen = rng.permutation(u_RD.shape[1])[: rng.integers(1, 5)]
    for column in chosen:
        total *= 1.0 + rng.uniform(0.2, 0.9) * np.tanh(curve(rng, u_RD[:, column]))
    return standardise(total)


SIGNALS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "linear": linear,
    "additive": additive,
    "interactions": interactions,
    "forest": forest,
    "mlp": mlp,
    "fourier": fourier,
    "product": product,
}
