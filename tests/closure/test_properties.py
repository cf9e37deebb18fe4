"""Closure over random tables, masks and insertion plans."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from padding import CALLS, draw_table, pad, scattered

from retrofit import Patched
from retrofit.hosts.clone import alias

# Sums of up to a few hundred terms in float64.
TOLERANCE = 1e-11


@st.composite
def plans(draw: st.DrawFn) -> tuple[tuple[int, int, int, int], tuple[int, int, int], int, float]:
    """Sizes and batch, how many NULL ones per axis (up to 3x), a seed, and what fills them."""
    sizes = draw(st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 7)))
    extra = tuple(draw(st.integers(0, 3 * size)) for size in sizes)
    batch = draw(st.integers(1, 3))
    fill = draw(st.sampled_from([None, 0.0, float("nan"), float("inf"), -3.5]))
    return (*sizes, batch), extra, draw(st.integers(0, 2**16)), fill


@pytest.mark.parametrize("call", ["plain", "column chunks", "joined caches"])
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(plan=plans())
def test_null_rows_and_columns_are_inert(
    tiny_closed: Patched,
    call: str,
    plan: tuple[tuple[int, int, int, int], tuple[int, int, int], int, float],
) -> None:
    (train, test, columns, batch), extra, seed, fill = plan
    generator = torch.Generator().manual_seed(seed)
    table = draw_table(train, test, columns, batch, seed)
    masks = [
        scattered(size, more, batch, generator)
        for size, more in zip(table.sizes, extra, strict=True)
    ]
    where = pad(table, *masks, seed=seed, fill=fill)
    model = alias(tiny_closed.model).double()
    before = CALLS["plain"](model, table, None)
    logits = CALLS[call](model, where.table, where.presence)
    assert (where.own(logits) - before).abs().max() <= TOLERANCE * before.abs().max()
    assert torch.isnan(where.null(logits)).all()


@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(plan=plans())
def test_the_order_of_null_places_does_not_matter(
    tiny_closed: Patched,
    plan: tuple[tuple[int, int, int, int], tuple[int, int, int], int, float],
) -> None:
    """Two paddings of one table agree with each other, not only with the table."""
    (train, test, columns, batch), extra, seed, fill = plan
    generator = torch.Generator().manual_seed(seed)
    table = draw_table(train, test, columns, batch, seed)
    outputs = []
    for _ in range(2):
        masks = [
            scattered(size, more, batch, generator)
            for size, more in zip(table.sizes, extra, strict=True)
        ]
        where = pad(table, *masks, seed=seed, fill=fill)
        model = alias(tiny_closed.model).double()
        outputs.append(where.own(CALLS["plain"](model, where.table, where.presence)))
    first, second = outputs
    assert (first - second).abs().max() <= TOLERANCE * first.abs().max()
