"""What the closed estimator refuses by name, and that a refusal leaves it as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from tabpfn import TabPFNRegressor

import retrofit
from retrofit import CalibrationTable, Host, Patched, Presence
from retrofit.closed.regressor import ClosedRegressor
from retrofit.errors import PresenceError, UnsupportedModeError

if TYPE_CHECKING:
    from pathlib import Path

Table = tuple[np.ndarray, np.ndarray, np.ndarray]


def regressor(host: Host, **settings: object) -> ClosedRegressor:
    return host.regressor(**({"n_estimators": 1, "device": "cpu"} | settings))


@pytest.fixture
def wide(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray, Presence]:
    """The table with a NULL column in front and a NULL row at the end."""
    X, y, X_test = table
    X, X_test = (np.insert(part, 0, np.inf, axis=1) for part in (X, X_test))
    X, y = np.vstack((X, X[-1:])), np.append(y, np.nan)
    return X, y, X_test, Presence(train_rows=np.isfinite(y), columns=[False] + [True] * 5)


@pytest.mark.parametrize("surplus", [-1, 1])
@pytest.mark.parametrize("with_rows", [True, False])
def test_x_and_y_of_two_lengths(
    surplus: int, with_rows: bool, wide: tuple[Any, ...], tiny_closed: Patched
) -> None:
    X, y, _, presence = wide
    longer = np.append(y, 0.0)[: len(y) + surplus]
    if not with_rows:
        presence = Presence(columns=presence.columns)
    with pytest.raises(PresenceError, match=f"X has {len(X)} rows and y has shape"):
        regressor(tiny_closed).fit(X, longer, presence=presence)


def broken(X: np.ndarray) -> dict[str, Any]:
    return {
        "sparse": scipy.sparse.csr_array(np.nan_to_num(X, posinf=0.0)),
        "one axis": X[:, 0],
        "three axes": X[None],
        "a ragged list": [[1.0], [1.0, 2.0]],
        "nothing": None,
    }


@pytest.mark.parametrize("kind", ["sparse", "one axis", "three axes", "a ragged list", "nothing"])
def test_no_dense_table(kind: str, wide: tuple[Any, ...], tiny_closed: Patched) -> None:
    X, y, X_test, presence = wide
    with pytest.raises(PresenceError, match="dense table"):
        regressor(tiny_closed).fit(broken(X)[kind], y, presence=presence)
    fitted = regressor(tiny_closed).fit(X, y, presence=presence)
    with pytest.raises(PresenceError, match="dense table"):
        fitted.predict(broken(X_test)[kind])


@pytest.mark.parametrize("presence", [[True] * 41, {"columns": [True] * 6}, True])
def test_a_mask_is_no_declaration(
    presence: object, wide: tuple[Any, ...], tiny_closed: Patched
) -> None:
    X, y, *_ = wide
    with pytest.raises(PresenceError, match=r"a retrofit\.Presence"):
        regressor(tiny_closed).fit(X, y, presence=presence)


SAMPLING = [
    {"SUBSAMPLE_SAMPLES": 20},
    {"SUBSAMPLE_SAMPLES": 0.5, "SAMPLE_SUBSAMPLING_METHOD": "majority_downsample"},
]


@pytest.mark.parametrize("config", SAMPLING)
@pytest.mark.parametrize("mode", ["fit_preprocessors", "fit_with_cache"])
def test_drawn_rows(
    mode: str, config: dict[str, object], wide: tuple[Any, ...], tiny_closed: Patched
) -> None:
    X, y, X_test, presence = wide
    settings = {"inference_config": config, "fit_mode": mode}
    with pytest.raises(UnsupportedModeError, match="SUBSAMPLE_SAMPLES"):
        regressor(tiny_closed, **settings).fit(X, y, presence=presence)
    plain = regressor(tiny_closed, **settings).fit(X[:40, 1:], y[:40])
    assert np.isfinite(plain.predict(X_test[:, 1:])).all()
    with pytest.raises(UnsupportedModeError, match="SUBSAMPLE_SAMPLES"):
        plain.predict(X_test[:, 1:], test_rows=[True] * 8 + [False])


def test_settings_of_an_earlier_fit_do_not_decide(
    wide: tuple[Any, ...], tiny_closed: Patched
) -> None:
    X, y, _, presence = wide
    fitted = regressor(tiny_closed).fit(X, y, presence=presence)
    fitted.set_params(inference_config=SAMPLING[0])
    with pytest.raises(UnsupportedModeError, match="SUBSAMPLE_SAMPLES"):
        fitted.fit(X, y, presence=presence)
    fitted.set_params(inference_config=None).fit(X, y, presence=presence)


def test_tuning(wide: tuple[Any, ...], tiny_closed: Patched) -> None:
    X, y, X_test, presence = wide
    tuned = {"tuning_config": {"calibrate_temperature": True, "tuning_n_folds": 2}}
    with pytest.raises(UnsupportedModeError, match="tuning_config"):
        regressor(tiny_closed, **tuned).fit(X, y, presence=presence)
    plain = regressor(tiny_closed, **tuned).fit(X[:40, 1:], y[:40])
    assert np.isnan(plain.predict(X_test[:, 1:], test_rows=[True] * 8 + [False])[-1])


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("fault", ["lengths", "late"])
def test_a_refused_fit_changes_nothing(
    fault: str, declared: bool, wide: tuple[Any, ...], tiny_closed: Patched
) -> None:
    X, y, X_test, presence = wide
    fitted = regressor(tiny_closed).fit(X, y, presence=presence)
    before, state = fitted.predict(X_test), dict(vars(fitted))
    bad = y[:-1] if fault == "lengths" else np.where(np.arange(len(y)) == 3, np.nan, y)
    X_bad = X[:, 1:4]
    again = Presence(columns=[True, True, False]) if declared else None
    with pytest.raises(ValueError, match=r"rows|NaN|samples"):
        fitted.fit(X_bad, bad, presence=again)
    assert dict(vars(fitted)) == state
    assert np.array_equal(fitted.predict(X_test), before)


def test_features_are_those_of_the_raw_table(wide: tuple[Any, ...], tiny_closed: Patched) -> None:
    X, y, X_test, presence = wide
    fitted = regressor(tiny_closed).fit(X, y, presence=presence)
    assert fitted.n_features_in_ == 6
    assert fitted.feature_names_in_ is None
    before = fitted.predict(X_test)
    names = [*"abcdef"]
    frame, frame_test = pd.DataFrame(X, columns=names), pd.DataFrame(X_test, columns=names)
    fitted = regressor(tiny_closed).fit(frame, y, presence=presence)
    assert fitted.n_features_in_ == 6
    assert fitted.feature_names_in_.tolist() == names
    assert np.array_equal(fitted.predict(frame_test), before)
    assert fitted.n_features_in_ == 6
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame_test[["a", "c", "b", "d", "e", "f"]])
    fitted.fit(frame[:40].drop(columns="a"), y[:40])
    assert fitted.feature_names_in_.tolist() == names[1:]


@pytest.mark.parametrize("variant", ["oa", "closed"])
def test_a_fit_of_a_model_in_memory_is_not_saved(
    variant: str,
    table: Table,
    tiny_host: Host,
    tiny_closed: Patched,
    calibration: list[CalibrationTable],
    tmp_path: Path,
) -> None:
    patched = tiny_closed
    if variant == "oa":
        patched = retrofit.patch(tiny_host, variant, tau=1.0, tables=calibration)
    for host in (patched, patched.restore()):
        fitted = clone(regressor(host)).fit(*table[:2])
        with pytest.raises(UnsupportedModeError, match=r"pickle the estimator"):
            fitted.save_fit_state(tmp_path / "fit.tabpfn_fit")
    assert not list(tmp_path.iterdir())


def test_a_fit_of_a_patched_file_is_saved_by_plain_tabpfn(
    table: Table, tiny_closed: Patched, tmp_path: Path
) -> None:
    """The way out that the refusal names."""
    X, y, X_test = table
    path = tiny_closed.save(tmp_path / "tiny-v3-closed.safetensors")
    fitted = TabPFNRegressor(model_path=str(path), n_estimators=1, device="cpu").fit(X, y)
    fitted.save_fit_state(tmp_path / "fit.tabpfn_fit")
    again = TabPFNRegressor.load_from_fit_state(tmp_path / "fit.tabpfn_fit", device="cpu")
    assert np.array_equal(again.predict(X_test), fitted.predict(X_test))
