"""One prediction of one fitted regressor, scored, with everything that is not finite refused."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.errors import NonFinitePredictionError, NonFiniteScoreError
from experiments.sweep import metrics

if TYPE_CHECKING:
    import pandas as pd
    from tabpfn import TabPFNRegressor

INTERVAL = (0.1, 0.9)
"""Quantiles of the central 80 % interval whose coverage is kept."""
_NO_SPREAD = 1e-6
"""Predictions whose spread is below this share of the targets' carry no information."""
_FLOAT32_EPS = 2.0**-23


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictive distribution of N test rows, in units of the target."""

    mean_N: np.ndarray
    low_N: np.ndarray
    high_N: np.ndarray
    nll: float
    """Mean negative log density of the true targets; NaN where there is no density, infinite where
    a target has density zero."""
    seconds: float


@dataclass(frozen=True)
class Scores:
    """What is kept of a prediction."""

    rmse: float
    mae: float
    r2: float
    nll: float
    """NaN where a target has density zero, or where there is no density."""
    coverage80: float
    collapsed: bool
    """Whether all test rows got the same mean, up to rounding, although the targets differ."""


def predict(regressor: TabPFNRegressor, X_test: pd.DataFrame, y_N: np.ndarray) -> Prediction:
    """Predict all test rows in one call.

    Raises:
        NonFinitePredictionError: a mean or a quantile is NaN or infinite, or a density NaN.
    """
    import torch

    start = time.perf_counter()
    output = regressor.predict(X_test, output_type="full", quantiles=list(INTERVAL))
    seconds = time.perf_counter() - start
    constant = getattr(regressor, "is_constant_target_", False)
    nll = float("nan")
    if not constant:
        targets_N = torch.as_tensor(y_N, dtype=torch.float32, device=output["logits"].device)
        losses_N = output["criterion"](output["logits"], targets_N)
        nll = float(losses_N.double().mean())
    low_N, high_N = (_array(quantile) for quantile in output["quantiles"])
    prediction = Prediction(_array(output["mean"]), low_N, high_N, nll, seconds)
    _refuse_non_finite(prediction, constant=constant)
    return prediction


def score(prediction: Prediction, y_N: np.ndarray) -> Scores:
    """Score a prediction against the true targets.

    Raises:
        NonFiniteScoreError: an error is too large for float64.
    """
    scores = Scores(
        rmse=metrics.rmse(y_N, prediction.mean_N),
        mae=metrics.mae(y_N, prediction.mean_N),
        r2=metrics.r2(y_N, prediction.mean_N),
        nll=prediction.nll if np.isfinite(prediction.nll) else float("nan"),
        coverage80=metrics.coverage(y_N, prediction.low_N, prediction.high_N),
        collapsed=_collapsed(prediction.mean_N, y_N),
    )
    # R2 is NaN where the test target does not vary, which is no fault.
    if not math.isfinite(scores.rmse + scores.mae) or math.isinf(scores.r2):
        raise NonFiniteScoreError(
            f"RMSE {scores.rmse}, MAE {scores.mae}, R2 {scores.r2}: the errors are too large for a "
            "score"
        )
    return scores


def _collapsed(mean_N: np.ndarray, y_N: np.ndarray) -> bool:
    """Whether the predictions differ by no more than rounding while the targets do."""
    rounding = max(_NO_SPREAD * np.ptp(y_N), _FLOAT32_EPS * np.abs(mean_N).max())
    return bool(np.ptp(y_N) > 0 and np.ptp(mean_N) <= rounding)


def _array(values: object) -> np.ndarray:
    return np.asarray(values, dtype=np.float64)


def _refuse_non_finite(prediction: Prediction, *, constant: bool) -> None:
    parts = {
        "mean": prediction.mean_N,
        "10 % quantile": prediction.low_N,
        "90 % quantile": prediction.high_N,
    }
    for name, values_N in parts.items():
        bad = int((~np.isfinite(values_N)).sum())
        if bad:
            raise NonFinitePredictionError(
                f"the predicted {name} is NaN or infinite for {bad} of {len(values_N)} test rows"
            )
    if not constant and np.isnan(prediction.nll):
        raise NonFinitePredictionError("the negative log density of the test targets is NaN")
