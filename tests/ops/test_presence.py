from __future__ import annotations

import math
import sys

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from op_samples import LAW

from retrofit.ops import OperatorError, presence

presence_module = sys.modules["retrofit.ops.presence"]  # the package exports its function
mpmath.mp.dps = 50


def reference(h: list[float], tau: float, repeats: int = 1) -> mpmath.mpf:
    """Presence in fifty digits, of a carrier that holds ``h`` so many times."""
    n = repeats * mpmath.fsum(mpmath.mpf(x) ** 2 for x in h)
    return n / (mpmath.mpf(tau) + n)


def ulps(got: float, want: mpmath.mpf) -> float:
    """Distance in units in the last place of float32."""
    spacing = float(np.spacing(np.float32(want)))
    return abs(float(mpmath.mpf(got) - want)) / spacing


def test_carriers_that_are_not_floating_point_are_refused():
    with pytest.raises(OperatorError, match="int64"):
        presence(torch.ones(3, dtype=torch.int64), 0.5)


@pytest.mark.parametrize("tau", [1, np.float32(0.5), np.int64(2), torch.tensor(0.5)])
def test_any_kind_of_number_is_a_tau(tau):
    assert presence(torch.ones(3), tau).item() == pytest.approx(3 / (3 + float(tau)))


@given(
    direction=st.lists(st.floats(0.125, 1, width=32) | st.just(0.0), min_size=1, max_size=16),
    exponent=st.floats(-18, 18),
    tau=st.sampled_from((1e-36, 1e-30, 1e-9, 1e-6, 1.0, 37.5, 1e6)),
    repeats=st.sampled_from((1, 1, 40)),
)
@LAW
def test_float32_presence_is_within_two_ulp_of_fifty_digits(direction, exponent, tau, repeats):
    h = torch.tensor(direction, dtype=torch.float64) * 10**exponent / repeats**0.5
    h = h.to(torch.float32)
    want = reference(h.tolist(), tau, repeats)
    got = presence(h.repeat(repeats), tau)
    assert got.dtype == torch.float32
    if want < 1e-37:  # beside float32's smallest normal number one unit is all there is
        assert abs(float(got) - float(want)) <= 2e-45
    else:
        assert ulps(float(got), want) <= 2


def test_small_carrier_keeps_its_presence():
    h = torch.full((32,), 3e-8)
    assert float(presence(h, 1e-6)) == pytest.approx(2.88e-8, rel=1e-5)


@pytest.mark.parametrize(("size", "tau"), [(1e25, 1e50), (1e-25, 1e-50)])
def test_squares_may_leave_the_range_of_float32(size, tau):
    assert float(presence(torch.full((4,), size), tau)) == pytest.approx(0.8, rel=2e-7)


def test_presence_is_zero_at_the_origin_alone():
    assert float(presence(torch.zeros(5), 1e-6)) == 0.0
    assert float(presence(torch.tensor([0.0, 1e-18, 0.0]), 1e-6)) > 0.0


@pytest.mark.parametrize(
    ("h", "dtype"),
    [
        (1e200, torch.float64),
        (3e38, torch.float32),
        (3e38, torch.bfloat16),
        (math.inf, torch.float32),
    ],
)
def test_presence_saturates(h, dtype):
    p = presence(torch.full((4,), h, dtype=dtype), 1e-6)
    assert float(p) == 1.0
    assert p.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


def test_nan_carrier_has_nan_presence():
    assert presence(torch.tensor([1.0, math.nan]), 1.0).isnan()


def test_tau_may_differ_by_token():
    h = torch.ones(2, 3, 4)
    tau = torch.tensor([1.0, 4.0, 12.0])
    assert torch.allclose(presence(h, tau)[1], torch.tensor([0.8, 0.5, 0.25]))


@pytest.mark.parametrize("tau", [0.0, -1.0, math.inf, math.nan, "1", None])
def test_bad_tau_is_refused(tau):
    with pytest.raises(OperatorError, match="tau"):
        presence(torch.ones(3), tau)


@given(
    direction=st.lists(st.floats(0.125, 1, width=32), min_size=1, max_size=16),
    exponent=st.floats(-18, 18),
    tau=st.sampled_from((1e-30, 1e-6, 1.0)),
)
@LAW
def test_devices_without_float64_come_close(direction, exponent, tau):
    h = (torch.tensor(direction, dtype=torch.float64) * 10**exponent).to(torch.float32)
    got = presence_module._presence_without_float64(h, tau)
    assert ulps(float(got), reference(h.tolist(), tau)) <= 6


def test_presence_without_float64_is_used_and_keeps_the_limits(monkeypatch):
    monkeypatch.setattr(presence_module, "NO_FLOAT64", {"cpu"})
    h = torch.tensor([[0.0, 0.0], [3e38, 3e38], [1e-3, 0.0]], requires_grad=True)
    p = presence(h, 1e-6)
    assert p.dtype == torch.float32
    assert torch.allclose(p, torch.tensor([0.0, 1.0, 0.5]))
    (grad,) = torch.autograd.grad(p.sum(), h)
    assert grad.isfinite().all()
    assert (grad[0] == 0).all()
    assert grad[2, 0] == pytest.approx(500, rel=1e-5)  # 2 h tau / (tau + h^2)^2


def test_gradients():
    h = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: presence(x, 0.3), h)
    zero = torch.zeros(2, 4, requires_grad=True)
    (grad,) = torch.autograd.grad(presence(zero, 1e-6).sum(), zero)
    assert (grad == 0).all()


def test_autocast_does_not_narrow_it():
    h = torch.full((32,), 3e-8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        p = presence(h, 1e-6)
    assert p.dtype == torch.float32
    assert torch.equal(p, presence(h, 1e-6))
