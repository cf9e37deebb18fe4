"""One fitted preprocessing under many models of tabpfn: equal to fresh fits, bit for bit."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from fakes import FakeModel, FakeRegressor

import retrofit
from experiments.errors import NonFinitePredictionError, UnsupportedTabPFNError
from experiments.sweep.metrics import score
from experiments.sweep.noise import other_kernels
from experiments.sweep.predict import predict
from experiments.sweep.shared_fit import strict_model, with_frozen_model, with_model

SETTINGS = {
    "n_estimators": 4,
    "random_state": 3,
    "device": "cpu",
    "inference_precision": torch.float32,
    "ignore_pretraining_limits": True,
}


@pytest.fixture(scope="module")
def parts() -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Numbers with gaps, categories with a level that only the test part has."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    X.iloc[::7, 1] = np.nan
    X["word"] = pd.Categorical(np.where(rng.random(60) < 0.4, "low", "high").astype(object))
    y = X["a"].to_numpy() - X["c"].to_numpy() ** 2 + rng.normal(size=60)
    return X.iloc[:44], y[:44], X.iloc[44:], y[44:]


@pytest.fixture(scope="module")
def patched(tiny_host, calibration) -> retrofit.Patched:
    return retrofit.patch(tiny_host, "full", tau=0.05, tables=calibration)


def fresh(host: retrofit.Host, parts):
    X_train, y_train, X_test, y_test = parts
    return predict(host.regressor(**SETTINGS).fit(X_train, y_train), X_test, y_test)


def equal(a, b) -> bool:
    same = [np.array_equal(a.mean_N, b.mean_N)]
    same += [np.array_equal(a.quantiles[level], b.quantiles[level]) for level in (0.1, 0.9)]
    return all(same) and a.nll == b.nll


def test_swapped_model_predicts_what_a_fresh_fit_predicts(tiny_host, patched, parts) -> None:
    X_train, y_train, X_test, y_test = parts
    fitted = tiny_host.regressor(**SETTINGS).fit(X_train, y_train)
    stock = predict(fitted, X_test, y_test)
    assert equal(stock, fresh(tiny_host, parts))
    swapped = predict(with_model(fitted, patched.regressor().model_path.model), X_test, y_test)
    assert equal(swapped, fresh(patched, parts))
    # The twin: were the swap without effect, all of the above would hold as well.
    assert not equal(swapped, stock)
    assert equal(predict(fitted, X_test, y_test), stock)


def test_letting_nan_through_changes_no_finite_prediction(tiny_host, parts) -> None:
    X_train, y_train, X_test, y_test = parts
    fitted = tiny_host.regressor(**SETTINGS).fit(X_train, y_train)
    before = predict(fitted, X_test, y_test)
    strict_model(fitted)
    assert equal(predict(fitted, X_test, y_test), before)
    assert tiny_host.model._nan_safe_output is True


def test_nan_weight_is_an_error_where_stock_shows_a_score(tiny_host, parts) -> None:
    X_train, y_train, X_test, y_test = parts
    fitted = tiny_host.regressor(**SETTINGS).fit(X_train, y_train)
    poisoned = copy.deepcopy(fitted.models_[0])
    with torch.no_grad():
        poisoned.icl_blocks[0].mlp[0].weight[0, 0] = float("nan")
    hidden = with_model(fitted, poisoned)
    assert np.isfinite(score(predict(hidden, X_test, y_test), y_test)["rmse"])
    strict_model(hidden)
    with pytest.raises(NonFinitePredictionError, match="mean is NaN or infinite for 16 of 16"):
        predict(hidden, X_test, y_test)


def test_nan_weight_in_a_patched_model_is_an_error(tiny_host, patched, parts) -> None:
    X_train, y_train, X_test, y_test = parts
    fitted = tiny_host.regressor(**SETTINGS).fit(X_train, y_train)
    poisoned = copy.deepcopy(patched.regressor().model_path.model)
    with torch.no_grad():
        poisoned.icl_blocks[0].mlp[0].weight[0, 0] = float("nan")
    expected = (retrofit.errors.NonFiniteOutputError, NonFinitePredictionError)
    with pytest.raises(expected):
        predict(with_model(fitted, poisoned), X_test, y_test)


def test_constant_target_needs_no_model(tiny_host, patched, parts) -> None:
    X_train, y_train, X_test, y_test = parts
    fitted = tiny_host.regressor(**SETTINGS).fit(X_train, np.full_like(y_train, 5.0))
    prediction = predict(with_model(fitted, patched.model), X_test, y_test)
    assert set(prediction.mean_N) == {5.0}
    assert np.isnan(prediction.nll)


def test_words_that_only_the_test_part_has_are_no_error(tiny_host, parts) -> None:
    X_train, y_train, X_test, y_test = parts
    levels = X_train["word"].cat.categories
    empty = pd.Categorical([None] * len(X_train), categories=levels)
    fitted = tiny_host.regressor(**SETTINGS).fit(X_train.assign(word=empty), y_train)
    with_words = predict(fitted, X_test, y_test)
    nothing = pd.Categorical([None] * len(X_test), categories=levels)
    without = predict(fitted, X_test.assign(word=nothing), y_test)
    assert np.array_equal(with_words.mean_N, without.mean_N)


@pytest.mark.parametrize(
    ("attribute", "value", "told"),
    [
        ("fit_mode", "fit_with_cache", "'fit_with_cache' keeps results of its own model"),
        ("models_", [1, 2], "averages 2 models"),
        ("executor_", object(), r"no executor_\._set_models"),
    ],
)
def test_unknown_internals_are_refused(attribute: str, value: object, told: str) -> None:
    fitted = FakeRegressor(FakeModel(), None).fit(pd.DataFrame({"x": [1.0, 2.0]}), np.arange(2.0))
    with_model(fitted, FakeModel())
    setattr(fitted, attribute, value)
    with pytest.raises(UnsupportedTabPFNError, match=told):
        with_model(fitted, FakeModel())


def test_unfitted_regressor_and_model_without_guard_are_refused() -> None:
    regressor = FakeRegressor(FakeModel(), None)
    with pytest.raises(UnsupportedTabPFNError, match="no executor_, models_, devices_"):
        with_model(regressor, FakeModel())
    fitted = regressor.fit(pd.DataFrame({"x": [1.0, 2.0]}), np.arange(2.0))
    del fitted.models_[0]._nan_safe_output
    with pytest.raises(UnsupportedTabPFNError, match="no attribute '_nan_safe_output'"):
        strict_model(fitted)


def test_other_kernels_move_float32_by_rounding_and_are_put_back() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(300, 257), torch.randn(257, 300)
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    usual = a @ b
    with other_kernels():
        assert torch.get_num_threads() == 1
        assert torch.backends.mkldnn.enabled is False
        # 257 products of size about 1, each rounded by at most 2^-24 of a running sum up to 16.
        assert torch.allclose(usual, a @ b, rtol=0, atol=257 * 2**-24 * 16)
    assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == (threads, onednn)


def test_other_kernels_move_stock_by_rounding_and_by_more_than_nothing(tiny_host, parts) -> None:
    X_train, y_train, X_test, y_test = parts
    fitted = tiny_host.regressor(**SETTINGS).fit(X_train, y_train)
    usual = predict(fitted, X_test, y_test)
    with other_kernels():
        moved = predict(with_frozen_model(fitted), X_test, y_test)
    deviation = np.abs(moved.mean_N - usual.mean_N).max() / np.std(y_train)
    # A dozen layers, each of which adds a few roundings of 2^-24 = 6e-8 to states of size 1.
    assert 0 < deviation < 1e-5
    assert equal(predict(fitted, X_test, y_test), usual)


def test_frozen_copy_leaves_the_regressors_own_model_trainable(tiny_host, parts) -> None:
    X_train, y_train, _, _ = parts
    fitted = tiny_host.regressor(**SETTINGS).fit(X_train, y_train)
    before = [p.requires_grad for p in fitted.models_[0].parameters()]
    assert any(before)
    frozen = with_frozen_model(fitted)
    assert not any(p.requires_grad for p in frozen.models_[0].parameters())
    assert [p.requires_grad for p in fitted.models_[0].parameters()] == before
    constant = tiny_host.regressor(**SETTINGS).fit(X_train, np.full_like(y_train, 5.0))
    assert with_frozen_model(constant) is constant


def fail_under_other_kernels() -> None:
    with other_kernels():
        raise RuntimeError("stop")


def test_other_kernels_are_put_back_after_an_error() -> None:
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    with pytest.raises(RuntimeError, match="stop"):
        fail_under_other_kernels()
    assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == (threads, onednn)


def test_a_generation_that_shows_nan_needs_no_switch(tiny_v2) -> None:
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20.0)
    fitted = tiny_v2.regressor(n_estimators=1, device="cpu").fit(X, y)
    model = fitted.models_[0]
    assert not hasattr(model, "_nan_safe_output")
    assert strict_model(fitted) is model
    last = model.output_projection[-1]
    last.weight = torch.nn.Parameter(torch.full_like(last.weight, np.nan), requires_grad=False)
    assert not np.isfinite(fitted.predict(X[:2])).any()
