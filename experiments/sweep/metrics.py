"""Scores of one prediction, in float64. N test rows; units are those of the target."""

from __future__ import annotations

import math

import numpy as np


def rmse(y_N: np.ndarray, prediction_N: np.ndarray) -> float:
    """Root mean squared error."""
    return math.sqrt(float(np.mean(np.square(_error(y_N, prediction_N)))))


def mae(y_N: np.ndarray, prediction_N: np.ndarray) -> float:
    """Mean absolute error."""
    return float(np.mean(np.abs(_error(y_N, prediction_N))))


def r2(y_N: np.ndarray, prediction_N: np.ndarray) -> float:
    """1 - SSE/SST; NaN where the test target does not vary, for the ratio is then undefined."""
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
