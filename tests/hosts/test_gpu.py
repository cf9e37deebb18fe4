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
    wired = retrofit.patch(mini_host, variant, presence="one", eps_den=0.0, calibration=calibration)
    gated = retrofit.patch(mini_host, variant, tau=10.0, calibration=calibration)
    assert np.abs(predict(wired, table, "cuda") - stock).max() / scale < 1e-4
    assert np.abs(predict(gated, table, "cuda") - stock).max() / scale > 3e-3
    on_cpu = predict(gated, table, "cpu")
    assert np.abs(predict(gated, table, "cuda") - on_cpu).max() / scale < 1e-4


def test_no_kernel_falls_back_on_cuda(
    mini_host: Host, table: tuple[np.ndarray, ...], calibration: list[CalibrationTable]
) -> None:
    gated = retrofit.patch(mini_host, "oa", tau=1.0, calibration=calibration)
    with retrofit.ops.record_kernels() as kernels:
        predict(gated, table, "cuda")
    assert set(kernels) == {"fused_sink"}
