"""The wiring proof and the fused kernel on a CUDA device; skipped, with a reason, without one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import retrofit
from retrofit import CalibrationTable, Host

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(),
        reason="needs a CUDA device; runs wherever torch.cuda.is_available()",
    ),
]


def predict(host: Host, table: tuple[np.ndarray, ...], device: str) -> np.ndarray:
    X, y, X_test = table
    settings = {"n_estimators": 4, "random_state": 0, "device": device}
    return host.regressor(**settings).fit(X, y).predict(X_test)


@pytest.mark.parametrize("variant", ["oa", "full"])
def test_presence_one_is_stock_on_cuda_and_a_large_tau_is_not(
    variant: str,
    mini_host: Host,
    table: tuple[np.ndarray, ...],
    calibration: list[CalibrationTable],
) -> None:
    scale = table[1].std()
    stock = predict(mini_host, table, "cuda")
    wired = retrofit.patch(mini_host, variant, presence="one", eps_den=0.0, tables=calibration)
    gated = retrofit.patch(mini_host, variant, tau=10.0, tables=calibration)
    assert np.abs(predict(wired, table, "cuda") - stock).max() / scale < 1e-4
    assert np.abs(predict(gated, table, "cuda") - stock).max() / scale > 3e-3
    on_cpu = predict(gated, table, "cpu")
    assert np.abs(predict(gated, table, "cuda") - on_cpu).max() / scale < 1e-4


def test_no_kernel_falls_back_on_cuda(
    mini_host: Host, table: tuple[np.ndarray, ...], calibration: list[CalibrationTable]
) -> None:
    gated = retrofit.patch(mini_host, "oa", tau=1.0, tables=calibration)
    with retrofit.ops.record_kernels() as kernels:
        predict(gated, table, "cuda")
    assert set(kernels) == {"fused_sink"}


def test_tables_in_padded_passes_on_cuda(
    mini_host: Host, table: tuple[np.ndarray, ...], calibration: list[CalibrationTable]
) -> None:
    """The passes run where the estimators are, and padding is as inert there as on a CPU."""
    closed = retrofit.patch(mini_host, "closed", tables=calibration)
    X, y, X_test = table
    tables = [(X, y, X_test), (X[:25, :3], y[:25], X_test[:4, :3]), (X[:31], y[:31], X_test)]
    settings = {"n_estimators": 2, "random_state": 0, "device": "cuda"}
    many = retrofit.predict_tables(closed, tables, **settings)
    for prediction, (X, y, X_test) in zip(many, tables, strict=True):
        alone = closed.regressor(**settings).fit(X, y).predict(X_test)
        assert np.abs(prediction - alone).max() / y.std() < 1e-4
    assert next(closed.model.parameters()).device.type == "cpu"


def test_declared_nulls_are_inert_on_cuda(
    mini_host: Host, table: tuple[np.ndarray, ...], calibration: list[CalibrationTable]
) -> None:
    closed = retrofit.patch(mini_host, "closed", tables=calibration)
    X, y, X_test = table
    wide, wide_test = (np.insert(part, [0, 2, 5], np.nan, axis=1) for part in (X, X_test))
    wide, wide_y = np.insert(wide, [0, 7, 7, 40], np.inf, axis=0), np.insert(y, [0, 7, 7, 40], 1e9)
    rows, columns = np.insert(np.ones(40, bool), [0, 7, 7, 40], False), ~np.isnan(wide_test[0])
    settings = {"n_estimators": 2, "random_state": 0, "device": "cuda"}
    alone = closed.regressor(**settings).fit(X, y).predict(X_test)
    presence = retrofit.Presence(train_rows=rows, columns=columns)
    padded = closed.regressor(**settings).fit(wide, wide_y, presence=presence)
    assert np.abs(padded.predict(wide_test) - alone).max() / y.std() < 1e-4
    moved = closed.regressor(**settings).fit(X[:30], y[:30]).predict(X_test)
    assert np.abs(moved - alone).max() / y.std() > 1e-3
