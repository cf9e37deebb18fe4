"""One synthetic regression task from start to end.

Shapes: R rows, C columns, D scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from experiments.errors import PriorError
from experiments.prior.causal import causal_graph
from experiments.prior.covariates import hide_cells, latent_scores, observe
from experiments.prior.draw import Array, bernoulli, pick, standardise
from experiments.prior.functions import SIGNALS
from experiments.prior.targets import add_noise, warp
from experiments.prior.views import components, squash, uniform_quantiles

if TYPE_CHECKING:
    from experiments.prior.config import PriorConfig

_TRIES = 20
_LARGEST_TARGET = 50.0
_LARGEST_CELL = 1e6


@dataclass(frozen=True)
class TaskShape:
    """Size of a task: ``train_rows`` of its ``rows`` are shown with their target."""

    rows: int
    columns: int
    train_rows: int

    def __post_init__(self) -> None:
        """Raise ``PriorError`` unless 2 <= train_rows < rows and columns >= 1."""
        if not (2 <= self.train_rows < self.rows and self.columns >= 1):
            raise PriorError(
                f"{self} is no task: it needs 2 <= train_rows < rows and at least one column."
            )


@dataclass(frozen=True)
class Task:
    """A table ``x_RC`` (NaN = missing) and a target ``y_R``, standardised by the train rows."""

    x_RC: npt.NDArray[np.float32]
    y_R: npt.NDArray[np.float32]
    family: str


def _scores_and_signal(
    rng: np.random.Generator, rows: int, columns: int, config: PriorConfig
) -> tuple[Array, Array, str]:
    """Latent scores ``(rows, columns)``, or their observed form, with a signal of them."""
    family = pick(rng, config.families)
    if family == "causal":
        scores, signal = causal_graph(rng, rows, columns)
        seen = np.empty_like(scores)
        for column in range(columns):
            seen[:, column] = observe(rng, scores[:, column], config.marginals)[1]
        return seen, signal, family
    latent = latent_scores(rng, rows, columns)
    scores = np.empty_like(latent)
    seen = np.empty_like(latent)
    for column in range(columns):
        scores[:, column], seen[:, column] = observe(rng, latent[:, column], config.marginals)
    relevant = columns
    if bernoulli(rng, config.irrelevant_share):
        relevant = max(1, round(columns * rng.uniform(0.15, 1.0)))
    inputs = scores[:, :relevant]
    signal = SIGNALS[family](rng, inputs)
    if bernoulli(rng, config.mixed_family_share):
        second = pick(rng, {name: w for name, w in config.families.items() if name != "causal"})
        signal = standardise(signal + rng.uniform(0.2, 1.0) * SIGNALS[second](rng, inputs))
    return seen, signal, family


def _make_redundant(rng: np.random.Generator, x_RC: Array) -> None:
    """Overwrite some columns by noisy copies of others, in place."""
    count = x_RC.shape[1]
    for column in range(count // 2, count):
        if bernoulli(rng, 0.4):
            source = x_RC[:, rng.integers(0, count // 2 + 1)]
            copy = source + rng.uniform(0.0, 0.5) * source.std() * rng.standard_normal(len(source))
            x_RC[:, column] = copy


def _draw(
    rng: np.random.Generator, shape: TaskShape, config: PriorConfig
) -> tuple[Array, Array, str]:
    """Raw columns, raw target and family; either may still be degenerate."""
    view = ""
    base = shape.columns
    if shape.columns >= 2 and bernoulli(rng, config.transformed_share):
        view = "quantiles" if bernoulli(rng, 0.5) else "components"
        base = -(-shape.columns // 2) if view == "quantiles" else -(-shape.columns * 4 // 5)
    x_RC, signal_R, family = _scores_and_signal(rng, shape.rows, base, config)
    if base >= 3 and bernoulli(rng, config.redundant_share):
        _make_redundant(rng, x_RC)
    y_R = warp(rng, add_noise(rng, signal_R, config), config)
    if bernoulli(rng, config.missing_share):
        share = rng.uniform(0.1, 1.0)
        for column in range(base):
            if bernoulli(rng, share):
                x_RC[:, column] = hide_cells(rng, x_RC[:, column])
    extra = shape.columns - base
    if view == "quantiles":
        kept = rng.permutation(base)[:extra]
        x_RC = np.hstack([uniform_quantiles(x_RC, shape.train_rows), x_RC[:, kept]])
    elif view == "components":
        squashed = squash(x_RC, shape.train_rows)
        x_RC = np.hstack([squashed, components(squashed, shape.train_rows, extra)])
    return x_RC[:, rng.permutation(shape.columns)], y_R, family


def sample_task(rng: np.random.Generator, shape: TaskShape, config: PriorConfig) -> Task:
    """Draw one task; the same generator state gives the same task, bit for bit.

    Raises ``PriorError`` when twenty draws in a row gave a constant or non-finite target.
    """
    for _ in range(_TRIES):
        with np.errstate(over="ignore", invalid="ignore"):
            x_RC, y_R, family = _draw(rng, shape, config)
        train = y_R[: shape.train_rows]
        spread = float(train.std())
        if not (np.isfinite(y_R).all() and spread > 1e-6) or np.isinf(x_RC).any():
            continue
        y_R = np.clip((y_R - train.mean()) / spread, -_LARGEST_TARGET, _LARGEST_TARGET)
        x_RC = np.clip(x_RC, -_LARGEST_CELL, _LARGEST_CELL)
        return Task(x_RC.astype(np.float32), y_R.astype(np.float32), family)
    raise PriorError(
        f"{_TRIES} draws of shape {shape} gave no usable target; "
        "check the shares and ranges of the prior's configuration."
    )
