"""Untuned models of scikit-learn on the same splits: how good is the subject of the retrofit?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.sweep.metrics import Prediction

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

RIDGE, KNN, FOREST, BOOSTING = "ridge", "knn", "random_forest", "gradient_boosting"
_ALPHAS = tuple(float(alpha) for alpha in np.logspace(-2, 3, 11))
_MIN_FREQUENCY = 5


@dataclass(frozen=True, eq=False)
class BaselineOutcome:
    """A baseline's prediction and the seconds of its fit."""

    prediction: Prediction
    fit_s: float


def run_baseline(
    name: str, seed: int, X_train: pd.DataFrame, y_train: np.ndarray, X_test: pd.DataFrame
) -> BaselineOutcome:
    """Fit one of ``BASELINES`` with all its preprocessing on the train part, and predict."""
    model = BASELINES[name](seed, X_train)
    start = time.perf_counter()
    model.fit(X_train, y_train)
    fitted = time.perf_counter()
    mean_N = np.asarray(model.predict(X_test), dtype=np.float64)
    done = time.perf_counter()
    return BaselineOutcome(Prediction(mean_N, done - fitted), fitted - start)


def _split_columns(X: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Names of number and text columns; columns without a value in the train part are left out."""
    seen = [name for name in X.columns if X[name].notna().any()]
    texts = [name for name in seen if X[name].dtype == "category"]
    return [name for name in seen if name not in texts], texts


def _scaled(X: pd.DataFrame) -> Any:
    """Medians for gaps and unit variance for numbers, one column per frequent level for text."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers, texts = _split_columns(X)
    return make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (OneHotEncoder(min_frequency=_MIN_FREQUENCY, handle_unknown="ignore"), texts),
    )


def _coded(X: pd.DataFrame, *, impute: bool) -> Any:
    """Numbers as they are (or with medians for gaps), text as ordinal codes."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OrdinalEncoder

    numbers, texts = _split_columns(X)
    missing = -1 if impute else np.nan
    encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=missing
    )
    return make_column_transformer(
        (SimpleImputer(strategy="median") if impute else "passthrough", numbers), (encoder, texts)
    )


def _ridge(seed: int, X: pd.DataFrame) -> Any:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline

    del seed
    return make_pipeline(_scaled(X), RidgeCV(alphas=_ALPHAS))


def _knn(seed: int, X: pd.DataFrame) -> Any:
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline

    del seed
    return make_pipeline(_scaled(X), KNeighborsRegressor(n_neighbors=min(10, len(X))))


def _forest(seed: int, X: pd.DataFrame) -> Any:
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline

    forest = RandomForestRegressor(n_estimators=200, random_state=seed)
    return make_pipeline(_coded(X, impute=True), forest)


def _boosting(seed: int, X: pd.DataFrame) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.pipeline import make_pipeline

    boosting = HistGradientBoostingRegressor(random_state=seed)
    return make_pipeline(_coded(X, impute=False), boosting)


BASELINES: dict[str, Callable[[int, pd.DataFrame], Any]] = {
    RIDGE: _ridge,
    KNN: _knn,
    FOREST: _forest,
    BOOSTING: _boosting,
}
"""Name to a builder of an unfitted pipeline, from the seed and the train part."""

BASELINE_SETTINGS: dict[str, tuple[tuple[str, str], ...]] = {
    RIDGE: (("alphas", "1e-2..1e3, 11"), ("columns", "scaled, one-hot")),
    KNN: (("neighbours", "10"), ("columns", "scaled, one-hot")),
    FOREST: (("trees", "200"), ("columns", "ordinal codes")),
    BOOSTING: (("settings", "scikit-learn's"), ("columns", "ordinal codes")),
}
"""What enters the key of a baseline's result."""
