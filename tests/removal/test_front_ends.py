"""Attributions, values and intervals beside independent formulas over fresh estimators."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from drawing import SETTINGS, draw
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import LeaveOneOut
from typer.testing import CliRunner

import retrofit
from experiments.cli import commands as _commands
from experiments.cli.app import app
from experiments.errors import ConfigError
from experiments.removal.columns import explain
from experiments.removal.intervals import intervals
from experiments.removal.values import dropping, row_values
from experiments.studies.bench.shapley import bench_shapley
from retrofit import Patched

pytest.importorskip("shapiq", reason="needs the extra explain; installed with the extra test")

TOLERANCE = 1e-5


def frame(X) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"c{place}" for place in range(X.shape[1])])


def refit(patched: Patched, X, y, X_test) -> np.ndarray:
    return patched.regressor(n_estimators=1, **SETTINGS).fit(X, y).predict(X_test)


@pytest.fixture(scope="module")
def parts():
    X, y, X_test = draw(0, rows=16, columns=4, test=3)
    return frame(X), y, frame(X_test)


@pytest.fixture(scope="module")
def removable(closed_host: Patched, parts):
    X, y, _ = parts
    return retrofit.Removable(closed_host, X, y, scope="pipeline", n_estimators=1, **SETTINGS)


@pytest.fixture(scope="module")
def worth(closed_host: Patched, parts):
    """Predictions by fresh estimators for each of the 2^4 coalitions of columns."""
    X, y, X_test = parts
    found = {}
    for size in range(5):
        for members in combinations(range(4), size):
            names = list(X.columns[list(members)])
            found[members] = (
                refit(closed_host, X[names], y, X_test[names])
                if members
                else np.full(len(X_test), y.mean())
            )
    return found


def test_shapley_values_are_those_of_the_formula_over_refits(removable, parts, worth) -> None:
    """phi_i = sum over S without i of |S|! (n - |S| - 1)! / n! (v(S + i) - v(S))."""
    _X, y, X_test = parts
    found = explain(removable, X_test)
    expected = np.zeros((len(X_test), 4))
    for column in range(4):
        for members, value in worth.items():
            if column in members:
                continue
            weight = math.factorial(len(members)) * math.factorial(3 - len(members)) / 24
            joined = tuple(sorted((*members, column)))
            expected[:, column] += weight * (worth[joined] - value)
    assert found.exact
    assert np.abs(found.main - expected).max() / y.std() < TOLERANCE
    assert np.abs(expected).max() / y.std() > 1e-2
    whole = found.main.sum(axis=1) + found.base
    assert np.abs(whole - found.predictions).max() / y.std() < TOLERANCE


def test_pairs_are_those_of_the_formula(removable, parts, worth) -> None:
    """Shapley interaction index of two columns, which k-SII of order 2 has for pairs."""
    _, y, X_test = parts
    found = explain(removable, X_test, order=2)
    for a, b in combinations(range(4), 2):
        expected = np.zeros(len(X_test))
        for members in worth:
            if {a, b} & set(members):
                continue
            size = len(members)
            weight = math.factorial(size) * math.factorial(2 - size) / math.factorial(3)

            def of(*more: int, members=members) -> np.ndarray:
                return worth[tuple(sorted((*members, *more)))]

            expected += weight * (of(a, b) - of(a) - of(b) + of())
        own = np.array([one[(a, b)] for one in found.values])
        assert np.abs(own - expected).max() / y.std() < TOLERANCE


def test_rows_share_their_coalitions_and_results_fit_other_libraries(closed_host, parts) -> None:
    X, y, X_test = parts
    removable = retrofit.Removable(closed_host, X, y, n_estimators=1, **SETTINGS)
    found = explain(removable, X_test)
    assert found.coalitions == 2**4
    again = explain(removable, X_test, budget=10, seed=3)
    assert not again.exact
    assert np.array_equal(again.main, explain(removable, X_test, budget=10, seed=3).main)
    shown = found.to_shap()
    assert shown.values.shape == (3, 4)
    assert list(shown.feature_names) == list(X.columns)
    assert np.allclose(found.importances.importances_mean, np.abs(found.main).mean(axis=0))
    assert found.scope == "model"


def test_leave_one_out_values_are_falls_of_the_score(removable, closed_host, parts) -> None:
    X, y, X_test = parts
    truth = y[:3] + 0.5
    found = row_values(removable, X_test, truth, metric="neg_mean_absolute_error")

    def score(kept) -> float:
        return -np.abs(refit(closed_host, X[kept], y[kept], X_test) - truth).mean()

    everyone = np.ones(len(y), dtype=bool)
    assert abs(found.score - score(everyone)) / y.std() < TOLERANCE
    for row in (0, 9):
        kept = everyone.copy()
        kept[row] = False
        expected = score(everyone) - score(kept)
        assert abs(found.values[row] - expected) / y.std() < TOLERANCE
    assert found.values.std() > 1e-4
    order = np.argsort(found.values)
    curve = dropping(removable, X_test, truth, order, np.array([0, 1]), "neg_mean_absolute_error")
    assert abs(curve[0] - found.score) / y.std() < TOLERANCE
    assert curve[1] > curve[0]


@pytest.mark.parametrize("kind", ["shapley", "banzhaf"])
def test_sampled_values_repeat_with_a_seed_and_serve_groups(
    kind, removable, closed_host, parts
) -> None:
    X, y, X_test = parts
    grouped = retrofit.Removable(
        closed_host, X, y, row_groups=np.arange(16) // 4, n_estimators=1, **SETTINGS
    )
    first, again, other = (
        row_values(grouped, X_test, y[:3], kind=kind, budget=12, seed=seed).values
        for seed in (0, 0, 1)
    )
    assert first.shape == (4,)
    assert np.array_equal(first, again)
    assert np.isfinite(other).all()
    with pytest.raises(ConfigError, match="loo, shapley, banzhaf"):
        row_values(grouped, X_test, y[:3], kind="beta")
    with pytest.raises(ConfigError, match="no metric"):
        row_values(grouped, X_test, y[:3], metric="sharpness")


class Refitted(RegressorMixin, BaseEstimator):
    def __init__(self, patched=None):
        self.patched = patched

    def __sklearn_clone__(self):
        return Refitted(self.patched)

    def fit(self, X, y):
        self.fitted_ = self.patched.regressor(n_estimators=1, **SETTINGS).fit(X, y)
        return self

    def predict(self, X):
        return self.fitted_.predict(X)


def test_intervals_are_those_of_mapie_with_real_refits(removable, closed_host, parts) -> None:
    regression = pytest.importorskip("mapie.regression", reason="needs the extra intervals")
    X, y, X_test = parts
    found = intervals(removable, X_test, coverage=0.8)
    real = regression.CrossConformalRegressor(
        estimator=Refitted(closed_host), confidence_level=0.8, method="plus", cv=LeaveOneOut()
    )
    real.fit_conformalize(X.to_numpy(), y)
    _, bounds = real.predict_interval(X_test.to_numpy())
    for end, own in enumerate((found.lower, found.upper)):
        assert np.abs(own - bounds[:, end, 0]).max() / y.std() < TOLERANCE
    assert (found.lower < found.upper).all()
    wider = intervals(removable, X_test, coverage=0.9)
    assert (wider.upper - wider.lower > found.upper - found.lower).any()


def test_a_missing_package_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, removable, parts
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "shapiq", None)
    from experiments.errors import MissingExtraError

    with pytest.raises(MissingExtraError, match=r"shapiq cannot be used here.*oretro\[explain\]"):
        explain(removable, parts[2])


@pytest.mark.parametrize(
    ("command", "files"),
    [
        (["explain", "--rows", "0,3", "--budget", "6"], {"attributions.csv", "explain.md"}),
        (["values", "--groups", "g"], {"values.csv", "values.md", "values.json"}),
        (["intervals", "--rows", "1", "--folds", "3"], {"intervals.csv", "intervals.md"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_write_tables_and_a_page(command, files, tmp_path) -> None:
    assert _commands.app is app
    X, y, _ = draw(0, rows=14, columns=3)
    path = tmp_path / "mine.csv"
    frame(X).assign(g=[f"k{row % 4}" for row in range(14)], price=y).to_csv(path, index=False)
    out = tmp_path / "out"
    arguments = [command[0], str(path), "--target", "price", *command[1:]]
    arguments += ["--n-estimators", "1", "--out", str(out)]
    arguments += ["--no-figures"] if command[0] == "explain" else []
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert files <= {path.name for path in out.iterdir()}
    page = next(out.glob("*.md")).read_text()
    assert "Scope `" in page
    assert "not Prior Labs'" in page


def test_the_bench_of_values_holds_both_scopes_to_the_imputer(closed_host) -> None:
    X, y, _ = draw(0)
    rows = bench_shapley(
        closed_host, X, y, members=1, rounds=1, device="cpu", explained=3, columns=3, part=4
    )
    by_scope = {row.scope: row for row in rows}
    assert by_scope["pipeline"].deviation < 1e-5 < by_scope["model"].deviation
    for row in rows:
        assert (row.rows, row.coalitions) == (3, 8)
        assert row.times == pytest.approx(row.shapiq_s / row.ours_s)
