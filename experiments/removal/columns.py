"""What each column adds to single predictions: Shapley values over coalitions of columns.

The game of a test row: a coalition of columns is worth the prediction of that row by the table
without the others. All explained rows share one set of coalitions, and each coalition is one pass
for all of them. The estimators are shapiq's.

Shapes: M explained rows, C columns (or groups of columns), K coalitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import Bunch

from experiments.removal.extras import optional

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from retrofit import Removable

EXACT_COALITIONS = 2**10
"""So many coalitions are all answered, where nobody gives a budget; beyond, they are sampled."""
_COALITIONS_AT_A_TIME = 64


@dataclass(frozen=True, eq=False)
class Attributions:
    """Attributions of M predictions to C columns, in units of the target."""

    values: tuple[Any, ...]
    """shapiq's ``InteractionValues`` of each row."""
    X: pd.DataFrame
    """The explained rows (M, C)."""
    predictions: np.ndarray
    """By the whole table (M,)."""
    scope: str
    coalitions: int
    """How many coalitions were answered, for all rows together."""
    exact: bool
    """Whether these are all coalitions; otherwise the values are estimates."""

    @property
    def main(self) -> np.ndarray:
        """Values of the single columns (M, C)."""
        return np.stack([found.get_n_order_values(1) for found in self.values])

    @property
    def base(self) -> np.ndarray:
        """Worth of no column at all (M,): the mean of the train targets."""
        return np.array([found.baseline_value for found in self.values], dtype=np.float64)

    @property
    def importances(self) -> Bunch:
        """Global importance of each column, as scikit-learn's ``permutation_importance`` tells it.

        ``importances`` (C, M) are the absolute values, ``importances_mean`` and
        ``importances_std`` (C,) over the rows.
        """
        absolute_CM = np.abs(self.main).T
        return Bunch(
            importances_mean=absolute_CM.mean(axis=1),
            importances_std=absolute_CM.std(axis=1),
            importances=absolute_CM,
        )

    def to_shap(self) -> Any:
        """The values of single columns as a ``shap.Explanation``, for shap's plots.

        Raises:
            MissingExtraError: shap is not installed.
        """
        shap = optional("shap", "explain")
        return shap.Explanation(
            values=self.main,
            base_values=self.base,
            data=self.X.to_numpy(),
            feature_names=[str(name) for name in self.X.columns],
        )


def column_game(table: Removable, X: Any, row: int) -> Any:
    """The ``shapiq.Game`` of one of the rows ``X`` (M, C); games of one table share its answers.

    Raises:
        MissingExtraError: shapiq is not installed.
    """
    shapiq = optional("shapiq", "explain")

    class ColumnGame(shapiq.Game):  # type: ignore[misc, name-defined]
        def value_function(self, coalitions: np.ndarray) -> np.ndarray:
            answers: np.ndarray = table.predict(X, columns=np.asarray(coalitions, dtype=bool))
            return answers[:, row]

    empty = float(table.target.mean())
    return ColumnGame(table.columns.groups, normalize=True, normalization_value=empty)


def explain(
    table: Removable,
    X: pd.DataFrame,
    *,
    budget: int | None = None,
    order: int = 1,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda _, __: None,
) -> Attributions:
    """Shapley values (``order`` 1) or interactions (k-SII, higher orders) of rows ``X`` (M, C).

    Args:
        table: Its scope and groups of columns hold for the values too.
        X: Rows to explain, with the table's columns.
        budget: Coalitions to answer; None for all of them if they are at most 1024, else 1024.
        order: Largest number of columns whose interaction is told.
        seed: Of the sampled coalitions; the same ones serve every row.
        progress: Called with the number of answered coalitions and of all, where both are known.

    Raises:
        MissingExtraError: shapiq is not installed.
    """
    shapiq = optional("shapiq", "explain")
    columns = table.columns.groups
    index = "SV" if order == 1 else "k-SII"
    allowed = EXACT_COALITIONS if budget is None else budget
    exact = 2**columns <= allowed
    before = table.answered
    if exact:
        every = np.array(list(product((False, True), repeat=columns)), dtype=bool)
        for start in range(0, len(every), _COALITIONS_AT_A_TIME):
            table.predict(X, columns=every[start : start + _COALITIONS_AT_A_TIME])
            progress(min(start + _COALITIONS_AT_A_TIME, len(every)), len(every))
    values = []
    for row in range(len(X)):
        game = column_game(table, X, row)
        if exact:
            found = shapiq.ExactComputer(game, columns)(index, order)
        elif order == 1:
            sampler = shapiq.KernelSHAP(columns, random_state=seed)
            found = sampler.approximate(allowed, game)
        else:
            sampler = shapiq.KernelSHAPIQ(columns, max_order=order, random_state=seed)
            found = sampler.approximate(allowed, game)
        # Games are normalised: what no column says is the baseline.
        found.baseline_value = game.normalization_value
        values.append(found)
    return Attributions(
        values=tuple(values),
        X=X.copy(),
        predictions=table.predict(X)[0],
        scope=table.scope,
        coalitions=table.answered - before,
        exact=exact,
    )
