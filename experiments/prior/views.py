"""Columns as the estimator presents them: the transforms that inference applies to a table.

TabPFN's estimator shows each ensemble member a transformed table: quantile-mapped columns beside
the originals, or squashed columns beside principal components. Tasks shown the same way keep the
learner from meeting such columns for the first time at inference. Statistics come from the train
rows alone.

Shapes: R rows, N train rows, C columns.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from experiments.prior.draw import Array


def uniform_quantiles(x_RC: Array, train_rows: int) -> Array:
    """Map each column to [0, 1] by its train quantiles, about one per ten rows; NaN stays."""
    grid = np.linspace(0.0, 1.0, max(train_rows // 10, 2))
    out = np.empty_like(x_RC)
    for column in range(x_RC.shape[1]):
        values = x_RC[:, column]
        known = values[:train_rows][~np.isnan(values[:train_rows])]
        if known.size == 0:
            out[:, column] = values
            continue
        knots = np.quantile(known, grid)
        # The mean of both directions puts ties at the middle of their run.
        rising = np.interp(values, knots, grid)
        falling = -np.interp(-values, -knots[::-1], -grid[::-1])
        out[:, column] = 0.5 * (rising + falling)
    return out


def squash(x_RC: Array, train_rows: int, limit: float = 3.0) -> Array:
    """Centre by the median, scale by the interquartile range, bend outliers under ``limit``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        low, middle, high = np.nanquantile(x_RC[:train_rows], [0.25, 0.5, 0.75], axis=0)
        reach = np.nanmax(x_RC[:train_rows], axis=0) - np.nanmin(x_RC[:train_rows], axis=0)
    scale = np.where(high > low, high - low, 0.5 * reach)
    z_RC = (x_RC - middle) / np.where(scale > 0, scale, 1.0)
    squashed: Array = z_RC / np.sqrt(1.0 + (z_RC / limit) ** 2)
    return squashed


def components(x_RC: Array, train_rows: int, count: int) -> Array:
    """The leading ``count`` principal components of the columns, NaN taken as the mean."""
    train = x_RC[:train_rows]
    known = ~np.isnan(train)
    size = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, train, 0.0).sum(axis=0) / size
    spread = np.sqrt(np.where(known, (train - mean) ** 2, 0.0).sum(axis=0) / size)
    z_RC = (x_RC - mean) / np.where(spread > 1e-9, spread, 1.0)
    z_RC = np.where(np.isnan(z_RC), 0.0, z_RC)
    _, vectors = np.linalg.eigh(z_RC[:train_rows].T @ z_RC[:train_rows])
    leading: Array = z_RC @ vectors[:, ::-1][:, :count]
    return leading
