"""The studies of removal on tables and hosts that are small."""

from __future__ import annotations

import numpy as np
import pytest

import retrofit
from experiments.errors import ConfigError
from experiments.removal.intervals import intervals
from experiments.studies.removal import coverage, equality, gap, mislabelled
from experiments.studies.removal.samples import drawn, mixed
from experiments.studies.removal.study import STUDIES, run, table


def none(_: str) -> None:
    pass


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn tables in place of packaged ones, and few of everything."""
    for study in (gap, mislabelled, coverage):
        monkeypatch.setattr(
            study, "packaged", lambda train, test, seed: [mixed(train, test, seed + 4)]
        )
    for study, values in {
        gap: {"TRAIN": 16, "TEST": 4, "MEMBERS": 1, "MOST": 3},
        coverage: {"TABLES": 2, "TRAIN": 12, "PACKAGED_ROWS": 12},
        equality: {"TABLES": 4, "TRAIN": 12},
        mislabelled: {"TRAIN": 20, "VALIDATION": 8, "SEEDS": 1, "BUDGET": 60, "ORDERS": 5},
    }.items():
        for name, value in values.items():
            monkeypatch.setattr(study, name, value)
    monkeypatch.setattr(mislabelled, "_DROPPED", np.array([0, 2, 4, 6]))


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.usefixtures("samples")
def test_every_study_fills_its_table(name: str, tiny_host) -> None:
    frame = run(name, tiny_host)
    cells = table(name, frame)
    assert len(frame)
    assert len(cells.rows) >= len(frame) / 2
    assert frame.notna().all(axis=None)


@pytest.mark.parametrize("coverage", [0.9, 0.1, 1.0])
def test_rows_that_are_too_few_for_a_coverage_are_counted(coverage: float, closed_host) -> None:
    sample = drawn(10, 3, 0)
    removable = retrofit.Removable(closed_host, sample.X, sample.y, n_estimators=1, device="cpu")
    with pytest.raises(ConfigError, match=r"10 rows carry .* above 0\.1 and below 0\.9"):
        intervals(removable, sample.X_test, coverage=coverage)


def test_an_unknown_study_is_refused(tiny_host) -> None:
    with pytest.raises(ConfigError, match="gap, coverage, mislabelled, equality"):
        run("gaps", tiny_host)


@pytest.mark.usefixtures("samples")
def test_pipeline_scope_is_refits_on_mixed_tables(closed_host) -> None:
    for row in equality.measure(closed_host, none):
        assert row.deviation < 1e-5 < row.effect
        assert row.poisoned == 0


def test_values_of_neighbours_add_up_and_find_a_wrong_target() -> None:
    sample = drawn(20, 10, 0)
    X, X_val = sample.X.to_numpy(), sample.X_test.to_numpy()
    y = X.sum(axis=1)
    y_val = X_val.sum(axis=1)
    y[3] += 100.0
    values = mislabelled.knn_shapley(X, X_val, y, y_val, 0)
    nearest = np.argsort(np.square(X_val[:, None] - X[None]).sum(-1), axis=1)[:, :5]
    worth = -np.mean(np.square(y_val - y[nearest].mean(axis=1)))
    nobody = -np.mean(np.square(y_val - y.mean()))
    assert values.sum() == pytest.approx(worth - nobody)
    assert values.argmin() == 3


def test_shuffled_targets_changed_places() -> None:
    y = np.arange(80.0)
    changed, wrong = mislabelled.shuffled(y, 0)
    assert wrong.sum() == 8
    assert (changed[wrong] != y[wrong]).all()
    assert np.array_equal(changed[~wrong], y[~wrong])
    assert np.array_equal(np.sort(changed), y)
