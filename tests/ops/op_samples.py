"""Hypothesis settings and random attentions of the operator tests."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from retrofit.contracts.figures import Setting
from retrofit.contracts.samples import MASKS, Sample, Shape, draw

LAW = settings(
    max_examples=500,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""Five hundred examples of every law, the same ones in every run."""


@st.composite
def samples(draw_from, dtype=torch.float64, min_sources=0) -> Sample:
    """Attentions of odd, single and empty shapes, grouped heads, every kind of mask."""
    kv_heads = draw_from(st.sampled_from((1, 2)))
    sizes = [size for size in (1, 2, 3, 7, 8, 17, 33) if size >= min_sources]
    sources = draw_from(st.sampled_from(sizes))
    if min_sources == 0 and draw_from(st.integers(0, 9)) == 0:
        sources = 0
    shape = Shape(
        batch=draw_from(st.sampled_from((1, 1, 2, 3))),
        heads=kv_heads * draw_from(st.sampled_from((1, 2, 3))),
        kv_heads=kv_heads,
        receivers=draw_from(st.sampled_from((1, 2, 5, 9))),
        sources=sources,
        width=draw_from(st.sampled_from((1, 3, 8, 16))),
    )
    setting = Setting("auto", dtype, seed=draw_from(st.integers(0, 2**31)))
    return draw(setting, shape, draw_from(st.sampled_from(MASKS)))
