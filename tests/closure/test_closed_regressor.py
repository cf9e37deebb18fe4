"""NULL rows and columns of the raw table, in every mode of the estimator."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from tabpfn import TabPFNRegressor

import retrofit
from retrofit import CalibrationTable, Host, Patched, Presence
from retrofit.closed.regressor import ClosedRegressor
from retrofit.errors import PresenceError, UnsupportedModeError

MODES: dict[str, dict[str, object]] = {
    "plain": {},
    "batched members": {"n_estimators": 8},
    "cache": {"fit_mode": "fit_with_cache", "n_estimators": 8},
    "low memory": {"fit_mode": "low_memory"},
    "memory saving": {"memory_saving_mode": True},
    "float64": {"inference_precision": torch.float64},
}
# float32 rounds predictions of the tiny host, whose output reaches 30, at 2e-6.
FLOAT32 = 1e-5
FLOAT64 = 1e-12


@dataclass(frozen=True)
class Raw:
    """The raw table with NULL rows and columns in it, and masks of what is its own."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    train: np.ndarray
    test: np.ndarray
    columns: np.ndarray

    @property
    def presence(self) -> Presence:
        return Presence(train_rows=self.train, columns=self.columns)


@pytest.fixture(scope="module")
def raw(table: tuple[np.ndarray, ...]) -> Raw:
    X, y, X_test = table
    rng = np.random.default_rng(0)
    train, test, columns = (
        rng.permutation([True] * size + [False] * size)
        for size in (len(X), len(X_test), X.shape[1])
    )
    raw = Raw(
        np.full((len(train), len(columns)), np.inf),
        np.full(len(train), np.nan),
        np.full((len(test), len(columns)), np.nan),
        train,
        test,
        columns,
    )
    raw.X[np.ix_(train, columns)], raw.y[train] = X, y
    raw.X_test[np.ix_(test, columns)] = X_test
    return raw


def regressor(host: Host, **settings: object) -> ClosedRegressor:
    defaults = {"n_estimators": 2, "random_state": 0, "device": "cpu"}
    return host.regressor(**(defaults | settings))


@pytest.mark.parametrize("mode", MODES)
def test_predictions_are_those_of_the_table_without_nulls(
    mode: str, raw: Raw, table: tuple[np.ndarray, ...], closed: Patched
) -> None:
    X, y, X_test = table
    before = regressor(closed, **MODES[mode]).fit(X, y).predict(X_test)
    fitted = regressor(closed, **MODES[mode]).fit(raw.X, raw.y, presence=raw.presence)
    after = fitted.predict(raw.X_test, test_rows=raw.test)
    assert np.isnan(after[~raw.test]).all()
    tolerance = FLOAT64 if mode == "float64" else FLOAT32
    assert np.abs(after[raw.test] - before).max() <= tolerance * y.std()


def test_nulls_do_go_through_the_model(
    raw: Raw, tiny_host: Host, table: tuple[np.ndarray, ...], calibration: list[CalibrationTable]
) -> None:
    """The row blocks hold the NULL rows too, and they are zero there."""
    seen = []

    class Counting(retrofit.hosts.probe.Probe):
        def carrier(self, stream: str, h: torch.Tensor) -> None:
            if stream == "icl_blocks.0:carrier":
                seen.append((h.shape[1], int((h != 0).any(-1).sum(1)[0])))

    closed = retrofit.patch(tiny_host, "closed", tau=1.0, tables=calibration)
    fitted = regressor(closed).fit(raw.X, raw.y, presence=raw.presence)
    with retrofit.hosts.probe.probing(Counting()):
        fitted.predict(raw.X_test, test_rows=raw.test)
    assert set(seen) == {(len(raw.train) + len(raw.test), raw.train.sum() + raw.test.sum())}


def test_a_data_frame_with_names_and_categories(
    table: tuple[np.ndarray, ...], mini_closed: Patched
) -> None:
    X, y, X_test = table

    def frame(values: np.ndarray) -> pd.DataFrame:
        made = pd.DataFrame(values, columns=[f"c{i}" for i in range(values.shape[1])])
        return made.assign(c3=made["c3"].map(lambda level: f"level {level}"))

    before = regressor(mini_closed).fit(frame(X), y).predict(frame(X_test))
    wide, wide_test = frame(X), frame(X_test)
    for made in (wide, wide_test):
        made.insert(1, "note", ["never read"] * len(made))
    columns = [name != "note" for name in wide.columns]
    fitted = regressor(mini_closed).fit(
        wide, pd.Series(y, index=np.arange(len(y)) + 7), presence=Presence(columns=columns)
    )
    assert np.abs(fitted.predict(wide_test) - before).max() <= FLOAT32 * y.std()


@pytest.mark.parametrize("mode", ["plain", "cache"])
def test_categorical_columns_are_counted_in_the_raw_table(
    mode: str, table: tuple[np.ndarray, ...], mini_closed: Patched
) -> None:
    X, y, X_test = table
    wide, wide_test = (np.insert(part, [0, 2, 5], np.inf, axis=1) for part in (X, X_test))
    presence = Presence(columns=np.isfinite(wide_test[1]))
    assert presence.columns.tolist() == [False, True, True, False, True, True, True, False]

    def predicted(indices: list[int], presence: Presence | None) -> np.ndarray:
        settings = MODES[mode] | {"categorical_features_indices": indices}
        estimator = regressor(mini_closed, **settings)
        if presence is None:
            return estimator.fit(X, y).predict(X_test)
        prediction = estimator.fit(wide, y, presence=presence).predict(wide_test)
        assert estimator.categorical_features_indices is indices
        return prediction

    alone = predicted([3], None)
    for indices in ([5], [0, 5, 7], np.array([5])):
        assert np.abs(predicted(indices, presence) - alone).max() <= FLOAT32 * y.std()
    for indices in ([], [3], [0, 7]):
        assert np.abs(predicted(indices, presence) - alone).max() > 1e-3 * y.std()
    with pytest.raises(ValueError, match="integer column positions"):
        predicted([5.0], presence)


@pytest.mark.parametrize("source", ["train", "test"])
def test_embeddings(
    source: str, raw: Raw, table: tuple[np.ndarray, ...], tiny_closed: Patched
) -> None:
    X, y, X_test = table
    alone = regressor(tiny_closed).fit(X, y).get_embeddings(X_test, source)
    fitted = regressor(tiny_closed).fit(raw.X, raw.y, presence=raw.presence)
    wide = np.full((len(X_test), raw.X.shape[1]), np.nan)
    wide[:, raw.columns] = X_test
    padded = fitted.get_embeddings(wide, source)
    assert padded.shape == alone.shape
    assert np.abs(padded - alone).max() <= FLOAT32 * np.abs(alone).max()
    other = regressor(tiny_closed).fit(X[:20], y[:20]).get_embeddings(X_test)
    if source == "test":
        assert np.abs(other - alone).max() > 1e-3 * np.abs(alone).max()
    with pytest.raises(PresenceError, match="columns has shape"):
        fitted.get_embeddings(X_test)


def test_every_output_is_nan_and_flagged_at_null_rows(raw: Raw, tiny_closed: Patched) -> None:
    fitted = regressor(tiny_closed).fit(raw.X, raw.y, presence=raw.presence)
    full = fitted.predict(raw.X_test, test_rows=raw.test, output_type="full")
    assert np.array_equal(full["test_present"], raw.test)
    for values in (full["mean"], full["median"], full["mode"], *full["quantiles"]):
        assert np.array_equal(np.isnan(values), ~raw.test)
    assert torch.equal(torch.isnan(full["logits"]).any(-1), ~torch.from_numpy(raw.test))
    quantiles = fitted.predict(
        raw.X_test, test_rows=raw.test, output_type="quantiles", quantiles=[0.5]
    )
    assert np.array_equal(quantiles[0], full["quantiles"][4], equal_nan=True)


def test_a_constant_target(raw: Raw, tiny_closed: Patched) -> None:
    y = np.where(raw.train, 3.0, np.nan)
    fitted = regressor(tiny_closed).fit(raw.X, y, presence=raw.presence)
    predicted = fitted.predict(raw.X_test, test_rows=raw.test)
    assert np.array_equal(predicted, np.where(raw.test, 3.0, np.nan), equal_nan=True)


def test_null_test_rows_alone(table: tuple[np.ndarray, ...], tiny_closed: Patched) -> None:
    X, y, X_test = table
    fitted = regressor(tiny_closed).fit(X, y)
    test = np.arange(len(X_test)) % 2 == 0
    predicted = fitted.predict(X_test, test_rows=test)
    expected = fitted.predict(X_test[test])
    assert np.abs(predicted[test] - expected).max() <= FLOAT32 * y.std()
    assert np.isnan(predicted[~test]).all()


def test_a_fitted_estimator_survives_pickling(raw: Raw, tiny_closed: Patched) -> None:
    fitted = regressor(tiny_closed).fit(raw.X, raw.y, presence=raw.presence)
    before = fitted.predict(raw.X_test, test_rows=raw.test)
    after = pickle.loads(pickle.dumps(fitted)).predict(raw.X_test, test_rows=raw.test)
    assert np.array_equal(before, after, equal_nan=True)


def test_fitting_again_forgets_the_declaration(
    raw: Raw, table: tuple[np.ndarray, ...], tiny_closed: Patched
) -> None:
    X, y, X_test = table
    fitted = regressor(tiny_closed).fit(raw.X, raw.y, presence=raw.presence).fit(X, y)
    assert np.array_equal(fitted.predict(X_test), regressor(tiny_closed).fit(X, y).predict(X_test))


def test_what_the_estimator_refuses(
    raw: Raw, table: tuple[np.ndarray, ...], tiny_closed: Patched
) -> None:
    X, y, X_test = table
    with pytest.raises(PresenceError, match="when they are predicted"):
        regressor(tiny_closed).fit(X, y, presence=Presence(test_rows=[True]))
    with pytest.raises(PresenceError, match="has shape"):
        regressor(tiny_closed).fit(X, y, presence=Presence(columns=[True]))
    fitted = regressor(tiny_closed).fit(raw.X, raw.y, presence=raw.presence)
    with pytest.raises(PresenceError, match="columns has shape"):
        fitted.predict(X_test)
    with pytest.raises(PresenceError, match="no row to predict"):
        fitted.predict(raw.X_test, test_rows=np.zeros(len(raw.X_test), bool))
    with retrofit.declaring(Presence(train_rows=raw.train)):
        for ask in (lambda: regressor(tiny_closed).fit(X, y), lambda: fitted.predict(raw.X_test)):
            with pytest.raises(PresenceError, match="tell the estimator"):
                ask()
    several = regressor(tiny_closed, device=["cpu", "cpu:0"])
    with pytest.raises(UnsupportedModeError, match="one device"):
        several.fit(raw.X, raw.y, presence=raw.presence)


@pytest.mark.parametrize("variant", ["oa", "full"])
def test_other_variants_have_the_stock_estimator(
    variant: str, tiny_host: Host, tiny_closed: Patched, calibration: list[CalibrationTable]
) -> None:
    other = retrofit.patch(tiny_host, variant, tau=1.0, tables=calibration)
    assert isinstance(regressor(other), TabPFNRegressor)
    assert not isinstance(regressor(other), ClosedRegressor)
    assert isinstance(regressor(tiny_closed), ClosedRegressor)


@pytest.mark.parametrize("mode", ["plain", "cache", "low memory"])
def test_a_fitted_estimator_keeps_copies(mode: str, raw: Raw, tiny_closed: Patched) -> None:
    X, y, train, columns = raw.X.copy(), raw.y.copy(), raw.train.copy(), raw.columns.copy()
    fitted = regressor(tiny_closed, **MODES[mode])
    fitted.fit(X, y, presence=Presence(train_rows=train, columns=columns))
    before = fitted.predict(raw.X_test, test_rows=raw.test)
    X[:], y[:], train[:], columns[:] = 7.0, 7.0, True, True
    after = fitted.predict(raw.X_test, test_rows=raw.test)
    assert np.array_equal(after, before, equal_nan=True)
