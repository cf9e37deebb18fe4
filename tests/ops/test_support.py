"""Sources that are not there never reach a kernel, so they cannot change how it rounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from retrofit.contracts import KERNELS, Setting
from retrofit.contracts.samples import (
    Shape,
    beside_a_fuller,
    draw,
    everyone_present,
    with_null_sources,
)
from retrofit.ops import OAttention, OAttentionConfig, oattention, record_kernels
from retrofit.ops.attention import support
from retrofit.ops.attention.dispatch import DIRECT_MAX_SOURCES
from retrofit.ops.attention.support import any_absent, present_first

SHORT = Shape(2, 4, 2, 7, 13, 16)


def sample(shape=SHORT, mask="none", dtype=torch.float32):
    return draw(Setting("auto", dtype, seed=3), shape, mask)


def inputs(x):
    return x.k_BhJD, x.v_BhJD, x.p_BJ, x.mask


def contiguous(x):
    return x


def as_projections(x):
    k, v = (y.transpose(1, 2).contiguous().transpose(1, 2) for y in (x.k_BhJD, x.v_BhJD))
    return replace(x, k_BhJD=k, v_BhJD=v)


@pytest.mark.parametrize("mask", ["none", "bool", "float", "per_key"])
@pytest.mark.parametrize("layout", [contiguous, as_projections])
@pytest.mark.parametrize("kernel", KERNELS)
def test_null_sources_change_no_bit(kernel, layout, mask):
    """Before, nothing is absent, so nothing is moved; widths that no vector divides are among."""
    for sources, width in ((13, 16), (13, 5), (33, 33), (300, 16)):
        x = everyone_present(sample(Shape(2, 4, 2, 7, sources, width), mask))
        for positions in ([sources], [0, 3, 5, 5, sources]):
            wide = with_null_sources(x, positions, seed=1)
            assert torch.equal(layout(wide).run(kernel), layout(x).run(kernel))
            woken = replace(wide, p_BJ=wide.p_BJ.masked_fill(wide.p_BJ == 0, 1e-3))
            assert not torch.equal(layout(woken).run(kernel), layout(x).run(kernel))


def test_null_sources_do_not_change_the_kernel_that_is_chosen():
    x = sample(Shape(2, 4, 4, 7, DIRECT_MAX_SOURCES, 16))
    wide = with_null_sources(x, [2] * 40, seed=1)
    with record_kernels() as counter:
        assert torch.equal(wide.run("auto"), x.run("auto"))
    assert counter == {"direct": 2}


def test_null_tokens_leave_cross_attention_bit_for_bit():
    torch.manual_seed(0)
    layer = OAttention(OAttentionConfig(width=32, heads=4)).eval()
    x_BSE, y_BJE = torch.randn(2, 5, 32), torch.randn(2, 11, 32)
    order = torch.tensor([0, 1, 11, 2, 11, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    wide_BJE = torch.cat((y_BJE, torch.zeros(2, 1, 32)), 1)[:, order]
    with torch.no_grad():
        want = layer(x_BSE, y_BJE)
        assert torch.equal(layer(x_BSE, wide_BJE), want)
        assert not torch.equal(layer(x_BSE, wide_BJE + 1e-3), want)


def test_sources_that_stay_keep_their_order_and_what_belongs_to_them():
    x = everyone_present(sample(mask="bool"))
    assert not any_absent(x.p_BJ)
    for absent in (slice(9, None), slice(0, 4), slice(3, 7)):
        gone = replace(x, p_BJ=x.p_BJ.clone())
        gone.p_BJ[:, absent] = 0
        assert any_absent(gone.p_BJ)
        stay = torch.tensor([j for j in range(13) if j not in range(*absent.indices(13))])
        want = gone.sources(stay)
        for got, expected in zip(present_first(*inputs(gone)), inputs(want), strict=True):
            assert torch.equal(got, expected.expand_as(got))


def test_ragged_batch_keeps_what_another_element_needs():
    x = beside_a_fuller(with_null_sources(sample(), [4], seed=1))
    k, _, p, _ = present_first(*inputs(x))
    assert k.shape[2] == 14
    for row_new, row_old in zip(p, x.p_BJ, strict=True):
        there = row_old[row_old > 0]
        assert torch.equal(row_new[: len(there)], there)
        assert not row_new[len(there) :].any()


def test_large_keys_and_values_stay_where_they_are(monkeypatch):
    x = sample()
    wide = with_null_sources(x, [4], seed=1)
    monkeypatch.setattr(support, "MAX_MOVED", wide.k_BhJD.numel() + wide.v_BhJD.numel() - 1)
    assert present_first(*inputs(wide))[0] is wide.k_BhJD
    # Four roundings of values below 2: the weight of 0 still silences the source.
    assert (wide.run("direct") - x.run("direct")).abs().max() <= 4 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("kernel", ["naive", "direct", "exact"])
def test_gradients_are_those_without_the_null_sources(kernel):
    x = sample(dtype=torch.float64)
    x = replace(x, p_BJ=x.p_BJ.clamp(min=1e-3))
    wide = with_null_sources(x, [0, 6], seed=1)

    def gradients(y):
        leaves = [z.clone().requires_grad_() for z in (y.k_BhJD, y.v_BhJD, y.p_BJ)]
        out = replace(y, k_BhJD=leaves[0], v_BhJD=leaves[1], p_BJ=leaves[2]).run(kernel)
        return torch.autograd.grad(out.square().sum(), leaves)

    null = wide.p_BJ[0] == 0
    for axis, got, want in zip((2, 2, 1), gradients(wide), gradients(x), strict=True):
        assert torch.equal(got.index_select(axis, (~null).nonzero()[:, 0]), want)
        assert not got.index_select(axis, null.nonzero()[:, 0]).any()
        assert want.abs().max() > 1e-3


def test_traced_code_does_not_depend_on_what_was_absent_when_it_was_traced():
    x = everyone_present(sample())
    holes = x.p_BJ.clone()
    holes[:, ::3] = 0

    def run(p_BJ):
        return replace(x, p_BJ=p_BJ).run("direct")

    traced = torch.jit.trace(run, holes)
    assert torch.allclose(traced(x.p_BJ), run(x.p_BJ), atol=1e-6)
    assert not torch.allclose(run(holes), run(x.p_BJ), atol=1e-3)


def test_gradients_have_a_path_where_nothing_is_present():
    x = sample()
    v = x.v_BhJD.clone().requires_grad_()
    replace(x, v_BhJD=v, p_BJ=torch.zeros_like(x.p_BJ)).run("auto").sum().backward()
    assert not v.grad.any()


@pytest.mark.parametrize("mapped", ["queries", "all"])
@pytest.mark.parametrize("kernel", ["auto", "direct", "naive"])
def test_vmap_over_null_sources(kernel, mapped):
    """Values cannot be read there, so nothing is moved, and NaN in absent sources stays silent."""
    x = with_null_sources(sample(dtype=torch.float64), [0, 5], seed=1)
    absent = (x.p_BJ == 0)[:, None, :, None]
    x = replace(x, k_BhJD=x.k_BhJD.masked_fill(absent, torch.nan))
    want = x.run(kernel)

    def one(q, k, v, p_receivers, p):
        return replace(x, q_BHSD=q, k_BhJD=k, v_BhJD=v, p_BS=p_receivers, p_BJ=p).run(kernel)

    tensors = x.q_BHSD, x.k_BhJD, x.v_BhJD, x.p_BS, x.p_BJ
    axes = (0, None, None, None, None) if mapped == "queries" else (0,) * 5
    twice = [
        t if axis is None else torch.stack((t, t)) for t, axis in zip(tensors, axes, strict=True)
    ]
    for got in torch.func.vmap(one, in_dims=axes)(*twice):
        assert torch.allclose(got, want, atol=1e-13, rtol=0)


@pytest.mark.parametrize("sources", [1, 5, 16, 24])
def test_a_direct_kernel_rounds_alike_with_and_without_a_bias(sources: int) -> None:
    generator = torch.Generator().manual_seed(sources)
    q, k, v = (torch.randn(2, 3, n, 8, generator=generator) for n in (7, sources, sources))
    p = torch.rand(2, sources, generator=generator) + 0.1
    absent = p.clone()
    absent[1, 0] = 0.0
    everyone, one_less = (oattention(q, k, v, None, x, backend="direct") for x in (p, absent))
    assert torch.equal(everyone[0], one_less[0])
    assert not torch.equal(everyone[1], one_less[1])
