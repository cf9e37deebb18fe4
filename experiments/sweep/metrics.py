"""The registry of scores, and the prediction that they are of, in float64.

A score is one entry of ``SCORES``: it then has a column in the results folder, and a place in
``summary.csv``, the markdown, LaTeX and HTML pages and on the terminal. N test rows; units are
those of the target. Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal

import numpy as np

from experiments.errors import NonFiniteScoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

CASES = "cases.csv"
COVERAGE = "coverage.csv"
OWN = "metrics.csv"
_NEGATED = "neg_"
"""How scikit-learn names the scorers that are errors with their sign turned."""
_NO_SPREAD = 1e-6
"""Predictions whose spread is below this share of the targets' carry no information."""
_FLOAT32_EPS = 2.0**-23


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictive distribution of N test rows, in units of the target."""

    mean_N: np.ndarray
    seconds: float
    quantiles: Mapping[float, np.ndarray] = field(default_factory=dict)
    """By level; empty where the model has none."""
    nll: float = math.nan
    """Mean negative log density of the true targets; NaN where there is no density, infinite where
    a target has density zero."""


class Beside(Enum):
    """How a variant's score is compared with stock's, case by case."""

    PERCENT = "change in percent of stock's"
    DIFFERENCE = "stock's, and the difference"
    BOTH = "stock's and the variant's"


@dataclass(frozen=True)
class Score:
    """One score of a prediction."""

    name: str
    """Its column in ``table``."""
    label: str
    better: Literal["lower", "higher", "nominal"]
    measure: Callable[[np.ndarray, Prediction], float]
    """From the true targets and the prediction."""
    beside: Beside | None
    """None: the tables of the summary do not show it among the other scores."""
    form: Callable[[float], str] | None = None
    """How a mean over cases is shown; None where it means nothing, for their units differ."""
    unit: str = ""
    """Empty for a number without one, and for one in the target's."""
    quantiles: tuple[float, ...] = ()
    """Levels that it needs; of a prediction without them the score is NaN."""
    table: str = CASES
    stem: str = ""
    """Of its columns in ``summary.csv``; its name unless given."""


def rmse(y_N: np.ndarray, prediction_N: np.ndarray) -> float:
    """Root mean squared error."""
    error_N, unit = _scaled(_error(y_N, prediction_N))
    return math.sqrt(float(np.mean(np.square(error_N)))) * unit


def mae(y_N: np.ndarray, prediction_N: np.ndarray) -> float:
    """Mean absolute error."""
    error_N, unit = _scaled(_error(y_N, prediction_N))
    return float(np.mean(np.abs(error_N))) * unit


def r2(y_N: np.ndarray, prediction_N: np.ndarray) -> float:
    """1 - SSE/SST; NaN where the test target does not vary, for the ratio is then undefined."""
    unit = _unit(y_N)
    y_N, prediction_N = y_N / unit, np.asarray(prediction_N, dtype=np.float64) / unit
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


def _scaled(values_N: np.ndarray) -> tuple[np.ndarray, float]:
    """The values in units of about their largest, so that no square over- or underflows."""
    unit = _unit(values_N)
    return values_N / unit, unit


def _unit(values_N: np.ndarray) -> float:
    """The power of two below the largest size: dividing by it rounds nothing."""
    largest = float(np.abs(values_N).max())
    if not 0.0 < largest < math.inf:
        return 1.0
    return 2.0 ** max(math.frexp(largest)[1] - 1, -1022)


SCORES: tuple[Score, ...] = (
    Score("rmse", "RMSE", "lower", lambda y_N, p: rmse(y_N, p.mean_N), None),
    Score("mae", "MAE", "lower", lambda y_N, p: mae(y_N, p.mean_N), Beside.PERCENT),
    Score(
        "r2", "R2", "higher", lambda y_N, p: r2(y_N, p.mean_N), Beside.DIFFERENCE, "{:.4f}".format
    ),
    # Nats per unit of the target: a difference is free of that unit, a level is not.
    Score(
        "nll",
        "NLL",
        "lower",
        lambda _, p: p.nll if math.isfinite(p.nll) else math.nan,
        Beside.DIFFERENCE,
        unit="nats",
    ),
    Score(
        "coverage80",
        "80 % coverage",
        "nominal",
        lambda y_N, p: coverage(y_N, p.quantiles[0.1], p.quantiles[0.9]),
        Beside.BOTH,
        lambda share: f"{100 * share:.2f} %",
        quantiles=(0.1, 0.9),
        table=COVERAGE,
        stem="coverage",
    ),
)


def own_score(name: str) -> Score:
    """The score of scikit-learn's scorer ``name``, by which more is better."""

    def measure(y_N: np.ndarray, prediction: Prediction) -> float:
        from experiments.sweep.scorers import scorer_value

        return scorer_value(name, y_N, prediction.mean_N)

    label = name.removeprefix(_NEGATED)
    if label != name:
        # An error, mostly in the target's units: only its size beside stock's means something.
        return Score(name, label, "higher", measure, Beside.PERCENT, table=OWN)
    return Score(name, label, "higher", measure, Beside.DIFFERENCE, "{:.4f}".format, table=OWN)


def scores(own: Iterable[str] = ()) -> tuple[Score, ...]:
    """The registered scores, and those of scorers that were asked for; a name counts once."""
    known = {one.name for one in SCORES}
    return (*SCORES, *(own_score(name) for name in own if name not in known))


FIRST = ("rmse", "mae", "r2", "nll")
"""Scores that every ``cases.csv`` has; of the others an older one may lack some."""


def levels() -> tuple[float, ...]:
    """Quantiles that the registered scores need, ascending."""
    return tuple(sorted({level for score in SCORES for level in score.quantiles}))


def score(prediction: Prediction, y_N: np.ndarray, own: Iterable[str] = ()) -> dict[str, float]:
    """Every registered score by its name; NaN where the prediction has not what it needs.

    ``own`` are names of scikit-learn's scorers, which are NaN where they refuse the targets.

    Raises:
        NonFiniteScoreError: an error is too large for float64.
    """
    known = prediction.quantiles.keys()
    found = {
        one.name: one.measure(y_N, prediction) if known >= set(one.quantiles) else math.nan
        for one in scores(own)
    }
    # Others are NaN where they are not defined, which is no fault.
    bad = [name for name, value in found.items() if math.isinf(value)]
    if bad or not math.isfinite(found["rmse"]):
        told = ", ".join(f"{one.label} {found[one.name]}" for one in SCORES)
        raise NonFiniteScoreError(f"{told}: the errors are too large for a score")
    return found


def collapsed(prediction: Prediction, y_N: np.ndarray) -> bool:
    """Whether all test rows got the same mean, up to rounding, although the targets differ."""
    mean_N, spread = prediction.mean_N, np.ptp(y_N)
    rounding = max(_NO_SPREAD * spread, _FLOAT32_EPS * np.abs(mean_N).max())
    return bool(spread > 0 and np.ptp(mean_N) <= rounding)
