"""One prediction of one fitted regressor, with everything that is not finite refused."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from experiments.errors import NonFinitePredictionError
from experiments.sweep.metrics import Prediction, levels

if TYPE_CHECKING:
    import pandas as pd
    from tabpfn import TabPFNRegressor


def predict(regressor: TabPFNRegressor, X_test: pd.DataFrame, y_N: np.ndarray) -> Prediction:
    """Predict all test rows in one call.

    Raises:
        NonFinitePredictionError: a mean or a quantile is NaN or infinite, or a density NaN.
    """
    import torch

    wanted = levels()
    start = time.perf_counter()
    output = regressor.predict(X_test, output_type="full", quantiles=list(wanted))
    seconds = time.perf_counter() - start
    constant = getattr(regressor, "is_constant_target_", False)
    nll = float("nan")
    if not constant:
        targets_N = torch.as_tensor(y_N, dtype=torch.float32, device=output["logits"].device)
        losses_N = output["criterion"](output["logits"], targets_N)
        nll = float(losses_N.double().mean())
    quantiles = dict(zip(wanted, map(_array, output["quantiles"]), strict=True))
    prediction = Prediction(_array(output["mean"]), seconds, quantiles, nll)
    _refuse_non_finite(prediction, constant=constant)
    return prediction


def _array(values: object) -> np.ndarray:
    return np.asarray(values, dtype=np.float64)


def _refuse_non_finite(prediction: Prediction, *, constant: bool) -> None:
    parts = {"mean": prediction.mean_N}
    parts |= {f"{100 * level:g} % quantile": q_N for level, q_N in prediction.quantiles.items()}
    for name, values_N in parts.items():
        bad = int((~np.isfinite(values_N)).sum())
        if bad:
            raise NonFinitePredictionError(
                f"the predicted {name} is NaN or infinite for {bad} of {len(values_N)} test rows"
            )
    if not constant and np.isnan(prediction.nll):
        raise NonFinitePredictionError("the negative log density of the test targets is NaN")
