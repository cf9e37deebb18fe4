"""torch.compile and patching: a compiled graph belongs to the model that it was made from."""

from __future__ import annotations

import pytest
import torch

import retrofit


@pytest.mark.slow
def test_compiled_stock_and_compiled_patched_do_not_mix(tiny_host, calibration) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(14, 1, 4), torch.randn(9, 1)
    stock = tiny_host.regressor().model_path.model

    def run(model: torch.nn.Module) -> torch.Tensor:
        with torch.inference_mode():
            return model(x, y)

    # The eager backend traces and guards like any other, and needs no C++ compiler.
    compiled_stock = torch.compile(stock, backend="eager")
    expected = run(stock)
    assert torch.equal(run(compiled_stock), expected)
    patched = retrofit.patch(tiny_host, "full", tau=0.05, tables=calibration)
    model = patched.regressor().model_path.model
    compiled_patched = torch.compile(model, backend="eager")
    for _ in range(2):
        assert torch.equal(run(compiled_stock), expected)
        # A traced norm takes its squares in float64, an eager one in float32: rounding apart.
        assert torch.allclose(run(compiled_patched), run(model), rtol=0, atol=1e-5)
    assert not torch.allclose(run(compiled_patched), expected, rtol=0, atol=1e-4)
