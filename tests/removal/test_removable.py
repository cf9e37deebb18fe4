"""Answers of a removable table beside refits, and beside the bare model on sliced tables."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from drawing import SETTINGS, draw

import retrofit
from retrofit import Patched, errors
from retrofit.closed.model_scope import ModelScope

# float32: two passes over tables of other sizes, in standard deviations of the target.
TOLERANCE = 1e-5


def refit(patched: Patched, X, y, X_test, members: int) -> np.ndarray:
    regressor = patched.regressor(n_estimators=members, **SETTINGS)
    return regressor.fit(X, y).predict(X_test)


def coalitions(seed: int, count: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).random((count, size)) < 0.6


@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("seed", range(6))
def test_pipeline_scope_equals_refits_and_model_scope_does_not(
    seed: int, members: int, closed_host: Patched
) -> None:
    X, y, X_test = draw(seed)
    rows, columns = coalitions(seed, 4, len(X)), coalitions(seed + 50, 4, X.shape[1])
    columns[:, 0] = True
    tables = {
        scope: retrofit.Removable(closed_host, X, y, scope=scope, n_estimators=members, **SETTINGS)
        for scope in ("pipeline", "model")
    }
    answers = {k: t.predict(X_test, rows=rows, columns=columns) for k, t in tables.items()}
    expected = np.stack(
        [
            refit(closed_host, X[r][:, c], y[r], X_test[:, c], members)
            for r, c in zip(rows, columns, strict=True)
        ]
    )
    assert np.abs(answers["pipeline"] - expected).max() / y.std() < TOLERANCE
    assert np.abs(answers["model"] - expected).max() / y.std() > 1e-3


@pytest.mark.parametrize("scope", ["model", "pipeline"])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda y: y * 1e200, "target range"),
        (lambda y: y * 1e-20, "target range"),
        (lambda y: np.where(np.arange(len(y)) == 2, np.nan, y), "not finite"),
    ],
    ids=["large", "tiny", "NaN"],
)
def test_targets_that_no_host_can_be_fitted_on_are_refused(
    scope: str, change, told: str, closed_host: Patched
) -> None:
    X, y, _ = draw(0)
    with pytest.raises(errors.PresenceError, match=told):
        retrofit.Removable(closed_host, X, change(y), scope=scope, **SETTINGS)


@pytest.mark.parametrize("scope", ["model", "pipeline"])
def test_the_whole_table_is_predicted_as_by_an_estimator(scope: str, closed_host: Patched) -> None:
    X, y, X_test = draw(0)
    table = retrofit.Removable(closed_host, X, y, scope=scope, n_estimators=4, **SETTINGS)
    expected = refit(closed_host, X, y, X_test, 4)
    assert np.abs(table.predict(X_test)[0] - expected).max() / y.std() < TOLERANCE
    without_a_row = table.predict(X_test, rows=np.arange(len(X))[None] > 0)
    assert np.abs(without_a_row[0] - expected).max() / y.std() > 1e-4


@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_model_scope_is_the_bare_model_on_the_sliced_prepared_table(
    seed: int, closed_host: Patched
) -> None:
    """One member without a target transform: slices of its prepared table, handed to the model."""
    X, y, X_test = draw(seed)
    rows, columns = coalitions(seed, 5, len(X)), coalitions(seed + 9, 5, X.shape[1])
    columns[:, 0] = True
    settings = {**SETTINGS, "inference_config": {"FINGERPRINT_FEATURE": False}}
    table = retrofit.Removable(closed_host, X, y, n_estimators=1, **settings)
    answers = table.predict(X_test, rows=rows, columns=columns)

    fitted = closed_host.regressor(n_estimators=1, **settings).fit(X, y)
    (member,) = fitted.executor_.ensemble_members
    assert member.config.target_transform is None
    test = member.transform_X_test(fitted_input(fitted, X_test))
    raw_of = [int(name.removeprefix("f").rpartition("_")[2]) for name in names(member)]
    raw_of = np.array(raw_of)
    for answer, own_rows, own_columns in zip(answers, rows, columns, strict=True):
        kept = own_columns[raw_of]
        x = np.concatenate((member.X_train[own_rows], test))[:, kept]
        own = y[own_rows]
        z = (own - own.mean()) / own.std()
        logits = closed_host.model(
            torch.tensor(x, dtype=torch.float32)[:, None], torch.tensor(z, dtype=torch.float32)
        )
        temperature = closed_host.inference_config.SOFTMAX_TEMPERATURE
        mean = closed_host.criterion.mean(logits[:, 0] / temperature).detach().numpy()
        assert np.abs(answer - (mean * own.std() + own.mean())).max() / y.std() < TOLERANCE


def fitted_input(fitted, X_test):
    seen = []

    class Stop(Exception):
        pass

    class Listener:
        def use_torch_inference_mode(self, **_):
            pass

        def iter_outputs(self, X, **_):
            seen.append(X)
            raise Stop

    engine, fitted.executor_ = fitted.executor_, Listener()
    with pytest.raises(Stop):
        fitted.predict(X_test)
    fitted.executor_ = engine
    return seen[0]


def names(member) -> list[str]:
    return [feature.name for feature in member.feature_schema.features]


def test_removed_cells_are_not_read_by_the_pipeline(closed_host: Patched) -> None:
    X, y, X_test = draw(0)
    rows = np.arange(len(X))[None] % 5 > 0
    columns = np.array([[True, False, True, True]])
    answers = []
    for poison in (0.0, 1e30):
        spoiled, spoiled_test = X.copy(), X_test.copy()
        spoiled[~rows[0]] = poison
        spoiled[:, 1], spoiled_test[:, 1] = poison, poison
        target = np.where(rows[0], y, poison)
        table = retrofit.Removable(
            closed_host, spoiled, target, scope="pipeline", n_estimators=2, **SETTINGS
        )
        answers.append(table.predict(spoiled_test, rows=rows, columns=columns))
    assert np.array_equal(*answers)


def test_leave_one_out_holds_out_each_row_or_group(closed_host: Patched) -> None:
    X, y, X_test = draw(0, rows=14)
    table = retrofit.Removable(closed_host, X, y, scope="pipeline", n_estimators=2, **SETTINGS)
    found = table.leave_one_out(X_test)
    for row in (0, 7, 13):
        kept = np.arange(len(X)) != row
        expected = refit(closed_host, X[kept], y[kept], np.vstack((X[row : row + 1], X_test)), 2)
        assert abs(found.held_out[row] - expected[0]) / y.std() < TOLERANCE
        assert np.abs(found.predictions[row] - expected[1:]).max() / y.std() < TOLERANCE
    assert np.array_equal(found.residuals, y - found.held_out)
    assert found.scope == "pipeline"

    labels = np.array(list("aabbbccddeeffg"))
    grouped = retrofit.Removable(
        closed_host, X, y, scope="pipeline", row_groups=labels, n_estimators=2, **SETTINGS
    ).leave_one_out()
    kept = labels != "b"
    expected = refit(closed_host, X[kept], y[kept], X[~kept], 2)
    assert np.abs(grouped.held_out[~kept] - expected).max() / y.std() < TOLERANCE


@pytest.mark.parametrize("scope", ["model", "pipeline"])
def test_coalitions_at_the_border_are_defined(scope: str, closed_host: Patched) -> None:
    X, y, X_test = draw(2)  # its second column is constant
    table = retrofit.Removable(closed_host, X, y, scope=scope, n_estimators=1, **SETTINGS)
    nobody = np.zeros((1, len(X)), dtype=bool)
    assert np.allclose(table.predict(X_test, rows=nobody), y.mean())
    one = nobody.copy()
    one[0, 3] = True
    assert np.allclose(table.predict(X_test, rows=one), y[3])
    half = np.arange(len(X))[None] % 2 > 0
    nothing = np.zeros((1, X.shape[1]), dtype=bool)
    assert np.allclose(table.predict(X_test, rows=half, columns=nothing), y[half[0]].mean())
    constant_alone = nothing.copy()
    constant_alone[0, 1] = True
    assert np.allclose(table.predict(X_test, rows=half, columns=constant_alone), y[half[0]].mean())
    level = retrofit.Removable(closed_host, X, np.full(len(y), 2.5), scope=scope, **SETTINGS)
    assert np.allclose(level.predict(X_test, rows=half), 2.5)


def test_masks_are_copied_and_checked(closed_host: Patched) -> None:
    X, y, X_test = draw(0)
    table = retrofit.Removable(closed_host, X, y, n_estimators=1, **SETTINGS)
    mask = np.arange(len(X))[None] > 3
    first = table.predict(X_test, rows=mask)
    mask[:] = True
    X[:] = 0.0
    assert np.array_equal(table.predict(X_test, rows=np.arange(len(X))[None] > 3), first)
    assert not np.allclose(table.predict(X_test, rows=mask), first, atol=1e-6)
    for rows in (mask.astype(float), mask[:, 1:], np.arange(3)):
        with pytest.raises(errors.PresenceError, match="rows must be boolean"):
            table.predict(X_test, rows=rows)
    with pytest.raises(errors.VariantError, match="model, pipeline"):
        retrofit.Removable(closed_host, X, y, scope="both")


def test_the_size_of_batches_and_their_order_change_nothing_but_rounding(
    closed_host: Patched, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, X_test = draw(0)
    rows = coalitions(3, 9, len(X))

    def answers(order=slice(None)):
        table = retrofit.Removable(closed_host, X, y, n_estimators=2, **SETTINGS)
        return table.predict(X_test, rows=rows[order])

    whole = answers()
    for rows_at_a_time in (1, 7 * 2 * len(X)):
        monkeypatch.setattr("retrofit.closed.model_scope._ROWS_AT_A_TIME", rows_at_a_time)
        assert np.abs(answers() - whole).max() / y.std() < TOLERANCE
    assert np.abs(answers(slice(None, None, -1))[::-1] - whole).max() / y.std() < TOLERANCE


def test_answers_are_kept_and_a_killed_run_goes_on(
    closed_host: Patched, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, X_test = draw(0)
    rows = coalitions(4, 6, len(X))
    asked = []
    original = ModelScope.answer

    def counting(self, X_test, requests, done):
        asked.append(len(requests))
        original(self, X_test, requests, done)

    monkeypatch.setattr(ModelScope, "answer", counting)

    def table(**more):
        return retrofit.Removable(closed_host, X, y, n_estimators=1, cache=tmp_path, **more)

    first = table(**SETTINGS).predict(X_test, rows=rows[[0, 1, 2, 0]])
    assert asked == [3]
    for path in sorted(tmp_path.iterdir())[:1]:
        path.unlink()
    again = table(**SETTINGS).predict(X_test, rows=rows)
    assert asked == [3, 4]
    assert np.abs(again[:3] - first[:3]).max() / y.std() < TOLERANCE
    table(**{**SETTINGS, "random_state": 1}).predict(X_test, rows=rows)
    assert asked == [3, 4, 6]


def test_frames_with_text_columns(closed_host: Patched) -> None:
    X, y, X_test = draw(0)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(d=lambda f: f.d.map(lambda v: f"k{v:.0f}"))
    test = pd.DataFrame(X_test, columns=list("abcd")).assign(
        d=lambda f: f.d.map(lambda v: f"k{v:.0f}")
    )
    columns = np.array([[True, True, False, True], [True, False, True, False]])
    settings = {"n_estimators": 1, "categorical_features_indices": [3], **SETTINGS}
    table = retrofit.Removable(closed_host, frame, y, scope="pipeline", **settings)
    answers = table.predict(test, columns=columns)
    one = closed_host.regressor(**{**settings, "categorical_features_indices": [2]})
    expected = one.fit(frame.iloc[:, [0, 1, 3]], y).predict(test.iloc[:, [0, 1, 3]])
    assert np.abs(answers[0] - expected).max() / y.std() < TOLERANCE


@pytest.mark.parametrize("scope", ["model", "pipeline"])
def test_test_rows_may_come_in_another_container_than_the_table(scope: str, closed_host) -> None:
    X, y, X_test = draw(0, rows=14)
    frame, test = (pd.DataFrame(x, columns=list("abcd")) for x in (X, X_test))
    rows = coalitions(7, 2, len(X))
    answers = [
        retrofit.Removable(closed_host, table, y, scope, n_estimators=1, **SETTINGS).predict(
            asked, rows=rows
        )
        for table in (X, frame)
        for asked in (X_test, test)
    ]
    for answer in answers[1:]:
        assert np.array_equal(answer, answers[0])


def test_an_estimate_counts_passes(closed_host: Patched) -> None:
    X, y, _ = draw(0)
    found = retrofit.Removable(closed_host, X, y, n_estimators=2, **SETTINGS).estimate(1000)
    assert found.passes >= 1
    assert found.seconds > 0
    assert 0 < found.memory_mb < 1e4


def test_a_fresh_process_in_another_folder(closed_host: Patched, tmp_path) -> None:
    path = tmp_path / "tiny-v3-closed.safetensors"
    closed_host.save(path)
    code = (
        "import numpy as np, retrofit\n"
        f"table = retrofit.Removable(retrofit.load_host({str(path)!r}),\n"
        "    np.random.default_rng(0).normal(size=(12, 3)), np.arange(12.0), n_estimators=1)\n"
        "print(table.leave_one_out().held_out.shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.stdout.strip() == "(12,)", done.stderr[-500:]


def test_the_bench_compares_every_way_with_refits(tiny_host, tmp_path) -> None:
    from experiments.studies.bench.removal import WAYS, bench_removal, write_removal_bench

    rows = bench_removal(tiny_host, rows=8, members=(1,), rounds=1)
    assert [row.way for row in rows] == list(WAYS)
    by_way = {row.way: row for row in rows}
    assert by_way["scope pipeline"].deviation < TOLERANCE < by_way["scope model"].deviation
    assert all(row.ratio > 0 and row.loop_s > 0 for row in rows)
    paths = write_removal_bench(tmp_path, tiny_host, rows, ["oretro"], built_in=False)
    assert {path.name for path in paths} == {"removal.csv", "removal.md", "removal.json"}


@pytest.mark.parametrize("host_name", ["tiny_v2", "tiny_v2_6", "tiny_v3_5"])
def test_every_generation_answers(host_name: str, calibration, request) -> None:
    patched = retrofit.patch(request.getfixturevalue(host_name), "closed", tables=calibration)
    X, y, X_test = draw(0, rows=14)
    rows = coalitions(5, 3, len(X))
    expected = np.stack([refit(patched, X[kept], y[kept], X_test, 1) for kept in rows])
    for scope, exact in (("pipeline", True), ("model", False)):
        table = retrofit.Removable(patched, X, y, scope, n_estimators=1, **SETTINGS)
        whole = np.abs(table.predict(X_test)[0] - refit(patched, X, y, X_test, 1))
        assert whole.max() / y.std() < TOLERANCE
        apart = np.abs(table.predict(X_test, rows=rows) - expected).max() / y.std()
        assert (apart < TOLERANCE) == exact
