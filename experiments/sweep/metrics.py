"""Scores of one prediction, in float64. N test rows; units are those of the target."""

from __future__ import annotations

import math

import numpy as np


def rmse(y_N: np.ndarray, prediction_N: np.ndarray) -> float:
    """Root mean squared error."""
    error_N, unit = _scaled(_error(y_N, prediction_N))
    return math.sqrt(float(np.mean(np.square(error_N)))) * unit


def mae(y_N: np.ndarray, prediction_N: np.ndarray) -> float:
    """Mean absolute error."""
    error_N, unit = _scaled(_error(y_N, prediction_N))
    return float(np.mean(np.abs(error_N))) * unit


def r2(y_N: np.ndarray, prediction_N: np.ndarray) -> float:
    """1 - SSE/SST; NaN where the test target does not vary, for the ratio is then undefined."""
    unit = _unit(y_N)
    y_N, prediction_N = y_N / unit, np.asarray(prediction_N, dtype=np.float64) / unit
    total = float(np.sum(np.square(y_N - np.mean(y_N))))
    if total == 0.0:
        return math.nan
    return 1.0 - float(np.sum(np.square(_error(y_N, prediction_N)))) / total


def coverage(y_N: np.ndarray, low_N: np.ndarray, high_N: np.ndarray) -> float:
    """Share of test targets inside the closed interval [low, high]."""
    return float(np.mean((low_N <= y_N) & (y_N <= high_N)))


def _error(y_N: np.ndarray, prediction_N: np.ndarray) -> np.ndarray:
    if y_N.shape != np.shape(prediction_N):
        raise ValueError(f"target {y_N.shape} and prediction {np.shape(prediction_N)} differ")
    error_N: np.ndarray = np.asarray(prediction_N, dtype=np.float64) - y_N
    return error_N


def _scaled(values_N: np.ndarray) -> tuple[np.ndarray, float]:
    """The values in units of about their largest, so that no square over- or underflows."""
    unit = _unit(values_N)
    return values_N / unit, unit


def _unit(values_N: np.ndarray) -> float:
    """The power of two below the largest size: dividing by it rounds nothing."""
    largest = float(np.abs(values_N).max())
    if not 0.0 < largest < math.inf:
        return 1.0
    return 2.0 ** max(math.frexp(largest)[1] - 1, -1022)
