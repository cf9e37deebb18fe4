"""Laws of OAttention: 500 examples each, every kernel on every example; float64 unless said."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from op_samples import LAW, samples

from retrofit.contracts import KERNELS
from retrofit.contracts.reference import direct_evaluation
from retrofit.contracts.samples import Sample, everyone_present, serves, with_null_sources
from retrofit.ops import presence

# Double rounding over at most 33 sources with scores below about 10 and values below 2.
CLOSE = 1e-13

modes = st.sampled_from(
    (("absolute", 1e-8), ("absolute", 0.0), ("absolute", 0.5), ("relative", 0.1))
)


def largest(x: torch.Tensor) -> float:
    assert x.isfinite().all()
    return float(x.abs().max()) if x.numel() else 0.0


@given(x=samples(), mode=modes)
@LAW
def test_agrees_with_direct_evaluation(x, mode):
    name, eps = mode
    want = direct_evaluation(x, eps, name == "relative")
    served = [kernel for kernel in KERNELS if serves(kernel, x, name)]
    assert len(served) >= 3
    for kernel in served:
        assert largest(x.run(kernel, eps, name) - want) <= CLOSE, kernel


@given(x=samples())
@LAW
def test_null_receivers_get_zero_and_others_do_not(x):
    all_there = replace(x, p_BS=torch.ones_like(x.p_BS), mask=None)
    for kernel in KERNELS:
        out = x.run(kernel)
        null = (x.p_BS == 0)[:, None, :, None].expand_as(out)
        assert largest(out[null]) == 0.0, kernel
        assert largest(replace(x, p_BS=torch.zeros_like(x.p_BS)).run(kernel)) == 0.0, kernel
        if x.p_BJ.shape[1]:  # the first source of every row is there
            assert (all_there.run(kernel).abs().amax(-1) > 0).all(), kernel


@given(x=samples(min_sources=1), data=st.data())
@LAW
def test_inserted_null_sources_change_nothing_and_woken_ones_do(x, data):
    x = replace(everyone_present(x), p_BS=x.p_BS.clamp(min=0.1))
    positions = data.draw(st.lists(st.integers(0, x.p_BJ.shape[1]), min_size=1, max_size=4))
    wide = with_null_sources(x, positions, seed=0)
    # A woken source moves outputs unless it happens to hold what they are already.
    woken = replace(wide, p_BJ=wide.p_BJ.masked_fill(wide.p_BJ == 0, 1.0), mask=None)
    free = replace(x, mask=None)
    for kernel in KERNELS:
        assert largest(wide.run(kernel) - x.run(kernel)) == 0.0, kernel
        assert largest(woken.run(kernel) - free.run(kernel)) > 1e-6, kernel


@given(x=samples(min_sources=1), data=st.data())
@LAW
def test_inserted_null_token_leaves_self_attention_as_it_was(x, data):
    """The NULL token is receiver and source; it gets 0 and the others what they had."""
    tokens = x.p_BJ.shape[1]
    groups = x.q_BHSD.shape[1] // x.k_BhJD.shape[1]
    q_BHSD = x.k_BhJD.repeat_interleave(groups, 1).flip(-1).contiguous()
    x = replace(x, q_BHSD=q_BHSD, p_BS=x.p_BJ, mask=None)
    position = data.draw(st.integers(0, tokens))
    wide = with_null_sources(x, [position], seed=0)
    order = torch.tensor([*range(position), 0, *range(position, tokens)])
    wide = replace(wide, q_BHSD=q_BHSD[:, :, order], p_BS=wide.p_BJ)
    old = torch.arange(tokens + 1) != position
    for kernel in KERNELS:
        out = wide.run(kernel)
        assert largest(out[:, :, old] - x.run(kernel)) <= CLOSE, kernel
        assert largest(out[:, :, ~old]) == 0.0, kernel


@given(x=samples(), mode=modes)
@LAW
def test_empty_support_gives_zero(x, mode):
    name, eps = mode
    hide = torch.zeros(x.p_BS.shape[1], x.p_BJ.shape[1])
    empty = (
        replace(x, p_BJ=torch.zeros_like(x.p_BJ)),
        replace(x, mask=hide > 0),
        replace(x, mask=hide),
        x.sources(torch.arange(0)),
    )
    for kernel in KERNELS:
        for y in empty:
            if serves(kernel, y, name):
                assert largest(y.run(kernel, eps, name)) == 0.0, kernel


@given(x=samples(), data=st.data())
@LAW
def test_order_of_sources_does_not_matter(x, data):
    order = torch.tensor(data.draw(st.permutations(range(x.p_BJ.shape[1]))), dtype=torch.long)
    for kernel in KERNELS:
        assert largest(x.sources(order).run(kernel) - x.run(kernel)) <= CLOSE, kernel


@given(x=samples(), poison=st.sampled_from((float("nan"), float("inf"), float("-inf"), 1.7e308)))
@LAW
def test_absent_sources_are_never_read_and_present_ones_are(x, poison):
    def poisoned(where_BJ: torch.Tensor) -> Sample:
        where_B1J1 = where_BJ[:, None, :, None]
        return replace(
            x,
            k_BhJD=x.k_BhJD.masked_fill(where_B1J1, poison),
            v_BhJD=x.v_BhJD.masked_fill(where_B1J1, poison),
        )

    absent, present = poisoned(x.p_BJ == 0), replace(poisoned(x.p_BJ == 0.5), mask=None)
    for kernel in KERNELS:
        assert largest(absent.run(kernel) - x.run(kernel)) == 0.0, kernel
        if x.p_BJ.shape[1] and (x.p_BS > 0).all() and poison != 1.7e308:
            assert not present.run(kernel).isfinite().all(), kernel


@given(x=samples(min_sources=2), exponent=st.integers(1, 17))
@LAW
def test_a_vanishing_source_vanishes(x, exponent):
    """Its share is at most its term over the first source's, which has presence 0.5."""
    x = replace(x, mask=None, p_BS=torch.ones_like(x.p_BS))
    last = x.p_BJ.shape[1] - 1
    p = presence(torch.tensor([[10.0**-exponent]], dtype=torch.float64), 1e-6)
    fading, gone = x.p_BJ.clone(), x.p_BJ.clone()
    fading[:, last], gone[:, last] = p[0], 0.0
    groups = x.q_BHSD.shape[1] // x.k_BhJD.shape[1]
    scores = (x.q_BHSD @ x.k_BhJD.repeat_interleave(groups, 1).mT) * x.scale
    reach = largest((scores[..., last] - scores[..., 0]).exp()) * 2 * 3.5 * float(p)
    for kernel in KERNELS:
        shift = replace(x, p_BJ=fading).run(kernel) - replace(x, p_BJ=gone).run(kernel)
        assert largest(shift) <= reach + CLOSE, kernel


@given(x=samples(), scale=st.sampled_from((1e2, 1e4, 1e6)))
@LAW
def test_large_scores_stay_finite_and_inside_the_values(x, scale):
    x = replace(x, q_BHSD=x.q_BHSD * scale)
    for kernel in KERNELS:
        assert largest(x.run(kernel)) <= 1.75 + CLOSE, kernel


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@given(data=st.data())
@LAW
def test_narrow_dtypes_stay_close(dtype, data):
    x = data.draw(samples(dtype))
    want = direct_evaluation(x, 1e-8)
    eps = torch.finfo(dtype).eps
    for kernel in KERNELS:
        out = x.run(kernel)
        assert out.dtype == dtype
        # Exact rounds once, below 2. Others round scores up to about 10, and each moves a weight.
        bound = 0.75 if kernel == "exact" else 32
        assert largest(out.double() - want) <= bound * eps, kernel
