"""scikit-learn's scorers by name, on predictions that are there already."""

from __future__ import annotations

import difflib
import math

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names


class _Answered(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator that has been asked: scorers take one, and ask it again."""

    def __init__(self, mean_N: np.ndarray) -> None:
        self.mean_N = mean_N

    def predict(self, X: object) -> np.ndarray:  # noqa: ARG002  (scorers pass it)
        return self.mean_N


def require_scorer(name: str) -> None:
    """Make sure that scikit-learn has a scorer of this name, and that it scores regressions.

    Raises:
        ValueError: it has none, or it is one of classifiers or clusterings.
    """
    known = get_scorer_names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        near = near or [one for one in known if name in one][:3]
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise ValueError(f"scikit-learn has no scorer '{name}'{hint}")
    y_N = np.array([1.25, 2.5, 4.75])
    if math.isnan(scorer_value(name, y_N, y_N + 0.125)):
        raise ValueError(f"'{name}' does not score a regression; r2 and neg_..._error do")


def scorer_value(name: str, y_N: np.ndarray, mean_N: np.ndarray) -> float:
    """The score; NaN where the scorer refuses these targets, or has no finite value."""
    try:
        value = float(get_scorer(name)(_Answered(mean_N), np.zeros((len(y_N), 1)), y_N))
    except (ValueError, TypeError, AttributeError):
        return math.nan
    return value if math.isfinite(value) else math.nan
