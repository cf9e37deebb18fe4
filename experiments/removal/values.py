"""What each train row, or group of rows, adds to a score on a validation part.

A coalition of rows is worth the score of the table that has only them. Leave-one-out values need a
coalition per row; Shapley and Banzhaf values are estimated by shapiq.

Shapes: G train rows or groups, V validation rows, K coalitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer

from experiments.errors import ConfigError
from experiments.removal.extras import optional

if TYPE_CHECKING:
    from retrofit import Removable

Kind: TypeAlias = Literal["loo", "shapley", "banzhaf"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DEFAULT_METRIC = "neg_root_mean_squared_error"


@dataclass(frozen=True, eq=False)
class RowValues:
    """How much the score falls without each row, or group of rows: higher is more valuable."""

    values: np.ndarray
    """(G,), in units of the metric."""
    kind: Kind
    metric: str
    scope: str
    score: float
    """Of the whole table."""
    coalitions: int


def row_values(
    table: Removable,
    X_val: Any,
    y_val: np.ndarray,
    *,
    kind: Kind = "loo",
    metric: str = DEFAULT_METRIC,
    budget: int | None = None,
    seed: int = 0,
) -> RowValues:
    """Values of the table's rows (or its groups of them) for predicting a validation part.

    Args:
        table: Its scope and groups of rows hold for the values too.
        X_val: (V, C), never train rows.
        y_val: (V,)
        kind: ``loo``: score of all less the score without one. ``shapley``, ``banzhaf``: the means
            over coalitions that these are.
        metric: Name of a scikit-learn scorer; greater is better.
        budget: Coalitions of ``shapley`` and ``banzhaf``; None for 20 per group.
        seed: Of the sampled coalitions.

    Raises:
        ConfigError: there is no such kind, or no such metric.
        MissingExtraError: shapiq is not installed, and the kind needs it.
    """
    if kind not in KINDS:
        raise ConfigError(f"no kind of value {kind!r}; there are {', '.join(KINDS)}")
    worth = _Worth(table, X_val, y_val, metric)
    groups, before = table.rows.groups, table.answered
    whole = float(worth(np.ones((1, groups), dtype=bool))[0])
    if kind == "loo":
        values = whole - worth(~np.eye(groups, dtype=bool))
    else:
        shapiq = optional("shapiq", "explain")
        allowed = 20 * groups if budget is None else budget
        if kind == "shapley":
            sampler = shapiq.KernelSHAP(groups, random_state=seed)
        else:
            sampler = shapiq.SVARMIQ(groups, max_order=1, index="BII", random_state=seed)
        values = sampler.approximate(allowed, worth).get_n_order_values(1)
    return RowValues(
        values=np.asarray(values, dtype=np.float64),
        kind=kind,
        metric=metric,
        scope=table.scope,
        score=whole,
        coalitions=table.answered - before,
    )


def dropping(
    table: Removable,
    X_val: Any,
    y_val: np.ndarray,
    order: np.ndarray,
    counts: np.ndarray,
    metric: str = DEFAULT_METRIC,
) -> np.ndarray:
    """Scores (len(counts),) without the first so many groups of ``order`` (G,)."""
    masks = np.ones((len(counts), table.rows.groups), dtype=bool)
    for mask, count in zip(masks, counts, strict=True):
        mask[order[:count]] = False
    return _Worth(table, X_val, y_val, metric)(masks)


class _Worth:
    """Scores (K,) of coalitions of row groups (K, G)."""

    def __init__(self, table: Removable, X_val: Any, y_val: np.ndarray, metric: str) -> None:
        try:
            self._scorer = get_scorer(metric)
        except ValueError as error:
            raise ConfigError(f"no metric {metric!r}; scikit-learn's scorers have names") from error
        self._table, self._X, self._y = table, X_val, np.asarray(y_val, dtype=np.float64)

    def __call__(self, coalitions: np.ndarray) -> np.ndarray:
        answers_KV = self._table.predict(self._X, rows=np.asarray(coalitions, dtype=bool))
        return np.array([self._scorer(_Given(own), self._X, self._y) for own in answers_KV])


class _Given(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor as scorers want one, whose predictions are there already."""

    def __init__(self, prediction: np.ndarray) -> None:
        self.prediction = prediction

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, _: Any) -> np.ndarray:
        """The predictions."""
        return self.prediction
