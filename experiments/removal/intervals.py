"""Intervals without refits: MAPIE's jackknife+ and cross-conformal over a removable table.

MAPIE fits a model per fold and asks each for predictions. Here a "model" is a row of answers that
the table has given already: inputs are numbers of rows, and fitting recognises the fold.

Shapes: N train rows, M test rows, G folds.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import PredefinedSplit
from sklearn.utils import Bunch

from experiments.errors import ConfigError
from experiments.removal.extras import optional

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from retrofit import Removable


def intervals(
    table: Removable, X_test: Any, *, coverage: float = 0.9, method: str = "plus"
) -> Bunch:
    """Prediction intervals of test rows (M, C) that hold the target with probability ``coverage``.

    Every train row, or every group of rows of the table (a fold), is held out once: jackknife+
    without groups, cross-conformal with them. Only scope ``pipeline`` has the theorem, for
    exchangeable rows: at least 1 - 2 (1 - coverage), and about ``coverage`` in practice.

    Args:
        table: Its groups of rows are the folds.
        X_test: Test rows, with the table's columns.
        coverage: Between 0 and 1.
        method: MAPIE's: ``plus``, ``base`` or ``minmax``.

    Returns:
        ``lower``, ``upper`` and ``prediction`` (M,) in units of the target; ``coverage``,
        ``method`` and ``scope``.

    Raises:
        ConfigError: the rows are too few for ``coverage``.
        MissingExtraError: MAPIE is not installed.
    """
    regression = optional("mapie.regression", "intervals")
    rows = len(table.target)
    if not 1 / rows < coverage < 1 - 1 / rows:
        raise ConfigError(
            f"{rows} rows carry intervals of a coverage above {1 / rows:.2g} and below "
            f"{1 - 1 / rows:.2g}, not {coverage:g}"
        )
    held = table.leave_one_out(X_test)
    whole = table.predict(X_test)
    lookup = LookUp(table.rows.group_of, held.held_out, held.predictions, whole[0])
    train, test = len(held.held_out), len(whole[0])
    conformal = regression.CrossConformalRegressor(
        estimator=lookup,
        confidence_level=coverage,
        method=method,
        cv=PredefinedSplit(table.rows.group_of),
    )
    conformal.fit_conformalize(np.arange(train)[:, None], table.target)
    _, bounds_M21 = conformal.predict_interval(train + np.arange(test)[:, None])
    return Bunch(
        lower=bounds_M21[:, 0, 0],
        upper=bounds_M21[:, 1, 0],
        prediction=whole[0],
        coverage=coverage,
        method=method,
        scope=table.scope,
    )


class LookUp(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose predictions are known: X are row numbers, test rows after train rows."""

    def __init__(
        self,
        fold_of: ArrayLike,
        held_out: ArrayLike,
        predictions: ArrayLike,
        whole: ArrayLike,
    ) -> None:
        self.fold_of = fold_of
        self.held_out = held_out
        self.predictions = predictions
        self.whole = whole

    def __sklearn_clone__(self) -> LookUp:
        return copy.copy(self)

    def fit(self, X: np.ndarray, y: Any) -> LookUp:  # noqa: ARG002
        """Recognise the fold that is missing among the row numbers; none: the whole table."""
        present = set(np.asarray(X).ravel().tolist())
        fold_of = np.asarray(self.fold_of)
        missing = {int(fold_of[row]) for row in range(len(fold_of)) if row not in present}
        if len(missing) > 1:
            raise ValueError(f"folds {sorted(missing)} are missing at once; nothing is known of it")
        self.fold_ = missing.pop() if missing else None
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """What the table said without the fold."""
        numbers = np.asarray(X).ravel()
        train = len(np.asarray(self.fold_of))
        out = np.empty(len(numbers))
        of_train = numbers < train
        out[of_train] = np.asarray(self.held_out)[numbers[of_train]]
        source = self.whole if self.fold_ is None else np.asarray(self.predictions)[self.fold_]
        out[~of_train] = np.asarray(source)[numbers[~of_train] - train]
        return out
