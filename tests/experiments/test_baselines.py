"""Baselines: untuned, seeded, and able to take what a table may hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.report.summary import BASELINES as NAMES_IN_TABLES
from experiments.sweep.baselines import BASELINE_SETTINGS, BASELINES, run_baseline


def parts(rows: int = 90) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=rows), "gap": rng.normal(size=rows), "none": np.nan})
    X.loc[::5, "gap"] = np.nan
    words = np.array(["a", "b", None], dtype=object)[rng.integers(0, 3, rows)]
    X["word"] = pd.Categorical(words)
    y = 3.0 * X["x"].to_numpy() + np.where(words == "a", 2.0, 0.0)
    return X, y + 0.1 * rng.normal(size=rows)


@pytest.mark.parametrize("name", BASELINES)
def test_baseline_takes_gaps_words_and_empty_columns_and_learns(name: str) -> None:
    X, y = parts()
    train, test = slice(0, 60), slice(60, 90)
    outcome = run_baseline(name, 1, X.iloc[train], y[train], X.iloc[test])
    error = np.sqrt(np.mean((outcome.prediction.mean_N - y[test]) ** 2))
    assert error < 0.7 * y[test].std()
    again = run_baseline(name, 1, X.iloc[train], y[train], X.iloc[test])
    assert np.array_equal(again.prediction.mean_N, outcome.prediction.mean_N)


def test_level_that_only_the_test_part_has_is_no_error() -> None:
    X, y = parts()
    X["word"] = pd.Categorical(["new" if row > 60 else "old" for row in range(90)])
    for name in BASELINES:
        outcome = run_baseline(name, 1, X.iloc[:60], y[:60], X.iloc[60:])
        assert np.isfinite(outcome.prediction.mean_N).all()


def test_every_baseline_has_settings_in_its_key_and_a_place_in_the_tables() -> None:
    assert set(BASELINES) == set(BASELINE_SETTINGS) == set(NAMES_IN_TABLES)


def test_ridge_is_the_closed_form_at_its_chosen_penalty() -> None:
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(50, 3)), columns=list("abc"))
    y = X.to_numpy() @ [1.0, -2.0, 0.5] + 4.0 + 0.3 * rng.normal(size=50)
    got = run_baseline("ridge", 0, X.iloc[:40], y[:40], X.iloc[40:]).prediction.mean_N
    train = X.iloc[:40].to_numpy()
    Z = (train - train.mean(0)) / train.std(0)
    W = (X.iloc[40:].to_numpy() - train.mean(0)) / train.std(0)
    fits = []
    for alpha in np.logspace(-2, 3, 11):
        weights = np.linalg.solve(Z.T @ Z + alpha * np.eye(3), Z.T @ (y[:40] - y[:40].mean()))
        fits.append(W @ weights + y[:40].mean())
    assert min(np.abs(got - fit).max() for fit in fits) < 1e-8
