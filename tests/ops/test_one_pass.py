"""Norm and presence from one float32 reduction: the same numbers, and nothing that others own."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from retrofit.ops import add_gated, gate, presence
from retrofit.ops.one_pass import one_squared_norm, presence_by, rms_norm

ORDINARY = torch.randn(6, 5, 16, generator=torch.Generator().manual_seed(0))


def carriers(*norms: float) -> torch.Tensor:
    h = torch.randn(len(norms), 16, generator=torch.Generator().manual_seed(1))
    h = h / h.norm(dim=-1, keepdim=True)
    return h * torch.tensor(norms)[:, None]


def test_ordinary_carriers_stay_in_float32():
    n = one_squared_norm(ORDINARY)
    assert n.dtype == torch.float32
    want = ORDINARY.double().square().sum(-1)
    assert ((n.double() - want).abs() <= 1e-6 * want).all()


@pytest.mark.parametrize("norm", [1e-15, 1e-18, 1e-25, 1e19, 1e25])
def test_a_carrier_beyond_the_safe_range_is_summed_in_float64_and_the_others_too_stay_right(norm):
    h = carriers(1.0, norm, 3.0)
    n = one_squared_norm(h)
    want = h.double().square().sum(-1)
    assert n.dtype == torch.float64
    assert ((n - want).abs() <= 1e-6 * want).all()
    assert (n[1] - want[1]).abs() <= 1e-12 * want[1]
    for tau in (1e-30, 1e-6, 1.0):
        got, exact = presence_by(n, tau, h.dtype).double(), want / (want + tau)
        assert ((got - exact).abs() <= 1e-6 * exact + 1e-44).all()


@pytest.mark.parametrize("tau", [1e-60, 1e-40, 1e38, 1e60])
def test_any_tau(tau):
    h = carriers(1.0, 2.0)
    got = presence_by(one_squared_norm(h), tau, h.dtype)
    assert torch.allclose(got, presence(h, tau), rtol=1e-6, atol=0)


def test_what_is_not_a_number_is_as_in_presence():
    h = carriers(1.0, 1.0, 1.0, 0.0)
    h[0, 0], h[1, 0] = math.nan, math.inf
    got = presence_by(one_squared_norm(h), 1e-6, h.dtype)
    assert torch.equal(got.isnan(), torch.tensor([True, False, False, False]))
    assert torch.allclose(got, presence(h, 1e-6), equal_nan=True)
    assert got[3] == 0


def test_the_way_is_closed_where_it_would_not_be_right():
    assert one_squared_norm(ORDINARY.bfloat16()) is None
    assert one_squared_norm(ORDINARY[:0]) is None
    assert one_squared_norm(ORDINARY.clone().requires_grad_()) is None
    with torch.no_grad():
        assert one_squared_norm(ORDINARY.clone().requires_grad_()) is not None
    assert one_squared_norm(ORDINARY.double()).dtype == torch.float64
    jacobian = torch.func.vmap(lambda h: one_squared_norm(h) is None and h)(ORDINARY)
    assert torch.equal(jacobian, ORDINARY)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("eps", [None, 1e-3])
def test_norms_are_torchs(dtype, affine, eps):
    norm = nn.RMSNorm(16, eps=eps, elementwise_affine=affine).to(dtype)
    h, rounding = ORDINARY.to(dtype), 8 * torch.finfo(dtype).eps
    if affine:
        nn.init.normal_(norm.weight)
    before = h.clone()
    n = one_squared_norm(h)
    p = presence_by(n, 5.0, dtype)
    want = norm(h)
    assert torch.allclose(rms_norm(norm, h, n), want, rtol=rounding, atol=rounding)
    assert torch.allclose(rms_norm(norm, h, n, p), gate(want, p), rtol=rounding, atol=rounding)
    assert torch.equal(h, before)
    if affine:
        ours, torchs = (
            torch.autograd.grad(x.square().sum(), norm.weight)[0]
            for x in (rms_norm(norm, h, n), norm(h))
        )
        assert torch.allclose(ours, torchs, rtol=100 * rounding)


def test_tiny_and_huge_carriers_are_normed_as_torch_does():
    h, norm = carriers(1e-20, 0.0, 1e17), nn.RMSNorm(16)
    with torch.no_grad():
        assert torch.allclose(rms_norm(norm, h, one_squared_norm(h)), norm(h), rtol=1e-5, atol=0)


def test_only_an_owned_carrier_is_overwritten_and_only_without_gradients():
    h, x = ORDINARY.clone(), ORDINARY.flip(0)
    p = presence(h, 5.0)
    for gates in (p, None):
        want = h + (x if gates is None else gate(x, gates))
        assert torch.allclose(add_gated(h, x, gates), want)
        assert torch.equal(h, ORDINARY)
        with_gradient = h.clone().requires_grad_()
        out = add_gated(with_gradient, x, gates, owned=True)
        assert torch.equal(with_gradient, ORDINARY)
        assert torch.autograd.grad(out.sum(), with_gradient)[0].eq(1).all()
        owned = h.clone()
        assert add_gated(owned, x, gates, owned=True) is owned
        assert torch.allclose(owned, want)


def test_narrow_carriers_keep_their_dtype():
    h, p = ORDINARY.bfloat16(), presence(ORDINARY, 5.0)
    for owned in (False, True):
        out = add_gated(h.clone(), ORDINARY.bfloat16(), p, owned=owned)
        assert out.dtype == torch.bfloat16
        want = h.double() * (1 + p.double()[..., None])
        assert ((out.double() - want).abs() <= 2**-8 * want.abs()).all()
