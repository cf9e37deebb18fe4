"""Scores against values worked by hand, and the density against one written out."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution

from experiments.errors import NonFiniteScoreError
from experiments.sweep import metrics
from experiments.sweep.metrics import Prediction, score
from experiments.sweep.predict import predict

Y = np.array([1.0, 2.0, 3.0, 6.0])
PREDICTED = np.array([2.0, 2.0, 1.0, 4.0])
"""Errors 1, 0, -2, -2; the targets' mean is 3, their squares about it 4, 1, 0, 9."""


def test_scores_worked_by_hand() -> None:
    assert metrics.rmse(Y, PREDICTED) == 1.5
    assert metrics.mae(Y, PREDICTED) == 1.25
    assert metrics.r2(Y, PREDICTED) == pytest.approx(1 - 9 / 14, rel=1e-15)


def test_r2_of_the_mean_is_zero_and_of_the_truth_one() -> None:
    assert metrics.r2(Y, np.full(4, 3.0)) == 0.0
    assert metrics.r2(Y, Y) == 1.0
    assert math.isnan(metrics.r2(np.full(3, 2.0), np.array([1.0, 2.0, 3.0])))


def test_coverage_counts_both_ends_of_the_interval() -> None:
    low, high = np.array([1.0, 0.0, 3.5, 0.0]), np.array([1.5, 2.0, 4.0, 5.0])
    assert metrics.coverage(Y, low, high) == 0.5


def test_predictions_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="differ"):
        metrics.rmse(Y, PREDICTED[:, None])


def test_nll_is_the_mean_of_minus_the_log_density() -> None:
    # Buckets [0, 1), [1, 3), [3, 4] with masses 1/4, 1/2, 1/4: the middle one is two wide,
    # so its density is 1/4.
    masses = torch.tensor([0.25, 0.5, 0.25])
    criterion = FullSupportBarDistribution(torch.tensor([0.0, 1.0, 3.0, 4.0]))
    targets = np.array([1.5, 2.5, 2.0])

    def regress(X: pd.DataFrame, **_: object) -> dict[str, object]:
        mean = np.zeros(len(X))
        return {
            "mean": mean,
            "quantiles": [mean, mean],
            "logits": masses.log().repeat(len(X), 1),
            "criterion": criterion,
        }

    regressor = SimpleNamespace(predict=regress)
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0]})
    # float32 logarithms: a few roundings of 2^-24.
    assert predict(regressor, frame, targets).nll == pytest.approx(math.log(4), rel=1e-6)
    # The twin: a wider bucket of the same mass has less density.
    wide = FullSupportBarDistribution(torch.tensor([0.0, 1.0, 5.0, 6.0]))
    regressor.predict = lambda X, **_: {**regress(X), "criterion": wide}
    assert predict(regressor, frame, targets).nll == pytest.approx(math.log(8), rel=1e-6)


@pytest.mark.parametrize("exponent", [-300, -200, 200, 300])
def test_scores_scale_with_the_target_where_squares_would_not(exponent: int) -> None:
    unit = 10.0**exponent
    assert metrics.rmse(Y * unit, PREDICTED * unit) == pytest.approx(1.5 * unit, rel=1e-14)
    assert metrics.mae(Y * unit, PREDICTED * unit) == pytest.approx(1.25 * unit, rel=1e-14)
    assert metrics.r2(Y * unit, PREDICTED * unit) == pytest.approx(1 - 9 / 14, rel=1e-14)


def test_scores_are_the_plain_formulas_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        y, predicted = rng.normal(size=(2, 37)) * 10.0 ** rng.uniform(-8, 8)
        error = predicted - y
        assert metrics.rmse(y, predicted) == math.sqrt(float(np.mean(np.square(error))))
        assert metrics.mae(y, predicted) == float(np.mean(np.abs(error)))
        total = float(np.sum(np.square(y - np.mean(y))))
        assert metrics.r2(y, predicted) == 1.0 - float(np.sum(np.square(error))) / total


@pytest.mark.parametrize("far", [1e308, -1e308])
def test_error_that_is_not_finite_is_no_score(far: float) -> None:
    with pytest.raises(NonFiniteScoreError, match="too large for a score"):
        score(Prediction(np.full(4, far), 0.0), -np.sign(far) * 1.5e307 * Y)
