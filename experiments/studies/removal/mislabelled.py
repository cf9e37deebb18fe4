"""Whether the values of rows tell which targets were shuffled, beside simpler ways.

Source of the baseline: R. Jia et al., "Efficient task-specific data valuation for nearest neighbor
algorithms", VLDB 2019; here its game is estimated by sampled orders.

Shapes: N train rows, V validation rows, C encoded columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.removal.values import dropping, row_values
from experiments.report.columns import Column
from experiments.studies.removal.samples import packaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from experiments.studies.removal.samples import Sample
    from retrofit import Patched, Removable

TRAIN, VALIDATION, SHUFFLED, SEEDS, BUDGET = 80, 60, 0.1, 3, 1000
"""Rows, share of shuffled targets, draws per data set, and coalitions of a sampled value."""
NEIGHBOURS, ORDERS = 5, 200
_DROPPED = np.array([0, 8, 16, 24])


@dataclass(frozen=True)
class MislabelledRow:
    """How well one way finds the shuffled targets of one table."""

    data: str
    seed: int
    way: str
    auroc: float
    drop_10: float
    """RMSE over that of the whole table, on rows of neither part, without the worst tenth."""
    drop_30: float


def measure(closed: Patched, progress: Callable[[str], None]) -> Iterator[MislabelledRow]:
    """A row per packaged set, draw and way."""
    from sklearn.metrics import roc_auc_score

    import retrofit

    for seed in range(SEEDS):
        for sample in packaged(TRAIN, 2 * VALIDATION, seed):
            progress(f"{sample.name}, draw {seed}")
            y, wrong = shuffled(sample.y, seed)
            table = retrofit.Removable(
                closed, sample.X, y, "model", n_estimators=1, **sample.settings
            )
            for way, badness in _ways(table, sample, y, seed).items():
                order = np.argsort(-badness, kind="stable")
                scores = dropping(
                    table, sample.X_test[VALIDATION:], sample.y_test[VALIDATION:], order, _DROPPED
                )
                yield MislabelledRow(
                    data=sample.name,
                    seed=seed,
                    way=way,
                    auroc=float(roc_auc_score(wrong, badness)),
                    drop_10=float(scores[1] / scores[0]),
                    drop_30=float(scores[3] / scores[0]),
                )


def shuffled(y_N: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets of which a tenth changed places, each for another's, and which these are."""
    draw = np.random.default_rng(seed)
    chosen = draw.choice(len(y_N), size=round(SHUFFLED * len(y_N)), replace=False)
    wrong = np.zeros(len(y_N), dtype=bool)
    wrong[chosen] = True
    changed = y_N.copy()
    changed[chosen] = y_N[np.roll(chosen, 1)]
    return changed, wrong


def _ways(table: Removable, sample: Sample, y: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """How bad each row is, larger being worse, by every way (N,)."""
    X_val, y_val = sample.X_test[:VALIDATION], sample.y_test[:VALIDATION]
    values = {
        kind: -row_values(table, X_val, y_val, kind=kind, budget=BUDGET, seed=seed).values
        for kind in ("loo", "shapley", "banzhaf")
    }
    return {
        **{f"values, {kind}": value for kind, value in values.items()},
        "leave-one-out residual": np.abs(table.leave_one_out().residuals),
        "KNN-Shapley": -knn_shapley(*_encoded(sample.X, X_val), y, y_val, seed),
        "at random": np.random.default_rng(seed).random(len(y)),
    }


def _encoded(X, X_val) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[no-untyped-def]
    """Both parts as numbers (., C) of equal scale, as nearest neighbours want them."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    encoder = make_column_transformer(
        (
            make_pipeline(SimpleImputer(), StandardScaler()),
            make_column_selector(dtype_include="number"),
        ),
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            make_column_selector(dtype_exclude="number"),
        ),
    )
    return encoder.fit_transform(X), encoder.transform(X_val)


def knn_shapley(
    X_NC: np.ndarray, X_VC: np.ndarray, y_N: np.ndarray, y_V: np.ndarray, seed: int
) -> np.ndarray:
    """Shapley values (N,) of rows in a game of nearest neighbours, by sampled orders.

    A coalition is worth less the mean squared error of its nearest neighbours' mean target.
    """
    distance_VN = np.square(X_VC[:, None] - X_NC[None]).sum(axis=-1)
    nearest_VN = np.argsort(distance_VN, axis=1, kind="stable")
    target_VN = y_N[nearest_VN]
    draw, values_N = np.random.default_rng(seed), np.zeros(len(y_N))
    for _ in range(ORDERS):
        order_N = draw.permutation(len(y_N))
        place_N = np.argsort(order_N)
        worth, before = np.empty(len(y_N)), -np.mean(np.square(y_V - y_N.mean()))
        for size in range(1, len(y_N) + 1):
            there_VN = place_N[nearest_VN] < size
            used_VN = there_VN & (np.cumsum(there_VN, axis=1) <= NEIGHBOURS)
            mean_V = (target_VN * used_VN).sum(axis=1) / used_VN.sum(axis=1)
            worth[size - 1] = -np.mean(np.square(y_V - mean_V))
        values_N[order_N] += np.diff(worth, prepend=before)
    return values_N / ORDERS


COLUMNS: tuple[Column[MislabelledRow], ...] = (
    Column("data", "data set"),
    Column("way", "way"),
    Column("auroc", "AUROC", "{:.3f}".format),
    Column("drop_10", "RMSE without the worst 10 %", "{:.3f}".format),
    Column("drop_30", "RMSE without the worst 30 %", "{:.3f}".format),
)
SAYS = (
    f"{TRAIN} rows of each packaged set, of which a tenth have each other's targets; {SEEDS} "
    f"draws. Values are on {VALIDATION} clean rows (scope `model`, one member, {BUDGET} "
    f"coalitions for Shapley and Banzhaf values), RMSE on {VALIDATION} others, as a ratio to that "
    f"of the whole table. KNN-Shapley is the same game with the mean of {NEIGHBOURS} nearest "
    "neighbours. The residual needs no clean rows."
)
