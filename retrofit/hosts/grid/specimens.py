"""Specimens of the grid block: every way in which its parts are called.

One attention is looked at with the other one silenced, in a table of one row or one column.

Shapes: B batch, S receivers, N train rows, M test rows, E model width.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from retrofit.hosts.anatomy import AttentionStep, FeedForwardStep, NormStep, Specimen
from retrofit.hosts.grid.blocks import CELLS, FEATURES, NORMS
from retrofit.hosts.kv_cache import PresentKVCacheEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from retrofit.hosts.anatomy import Step
    from retrofit.hosts.gates import Gates

CHUNKS = 3


def specimens(model: Any) -> Iterator[Specimen]:
    """Every way in which a block of a patched model is called."""
    twin = model.blocks[0]
    yield from _features(_without(twin, CELLS))
    yield from _cells(_without(twin, FEATURES))


def _features(twin: Any) -> Iterator[Specimen]:
    norms = (_norm(twin, name) for name in NORMS[:2])
    steps: tuple[Step, ...] = (
        _attention(twin, FEATURES, "features"),
        *norms,
        *_feed_forward(twin),
    )

    def whole(x_BSE: Tensor, _: Tensor, factor: int | None = None) -> Tensor:
        # A row of its own, of which nothing is a test row; chunks overwrite the carriers.
        out: Tensor = twin([x_BSE[:, None].clone()], 1, factor)[0]
        return out[:, 0]

    def in_chunks(x_BSE: Tensor, y_BSE: Tensor) -> Tensor:
        return whole(x_BSE, y_BSE, CHUNKS)

    yield _specimen("between features", twin, steps, whole)
    yield _specimen("between features, in chunks", twin, steps, in_chunks)


def _cells(twin: Any) -> Iterator[Specimen]:
    before, after = (_norm(twin, name) for name in NORMS[:2])
    attention = _attention(twin, CELLS, "cells")
    steps: tuple[Step, ...] = (before, attention, after, *_feed_forward(twin))

    def train(x_BNE: Tensor, _: Tensor, factor: int | None = None) -> Tensor:
        rows, count = torch.cat((x_BNE, x_BNE[:, :1]), dim=1), x_BNE.shape[1]
        out: Tensor = twin([rows[:, :, None].clone()], count, factor)[0]
        return out[:, :count, 0]

    def in_chunks(x_BNE: Tensor, y_BNE: Tensor) -> Tensor:
        return train(x_BNE, y_BNE, CHUNKS)

    def making_a_cache(x_BNE: Tensor, _: Tensor) -> Tensor:
        out: Tensor = twin([x_BNE[:, :, None]], x_BNE.shape[1], None, return_kv=True)[0]
        return out[:, :, 0]

    yield _specimen("between cells, train rows", twin, steps, train)
    yield _specimen("between cells, train rows in chunks", twin, steps, in_chunks)
    yield _specimen("between cells, making a cache", twin, steps, making_a_cache)

    def test(x_BME: Tensor, y_BNE: Tensor) -> Tensor:
        count = y_BNE.shape[1]
        update, _ = twin._between_cells(torch.cat((y_BNE, x_BME), dim=1), count)
        return x_BME + update[:, count:]

    def from_a_cache(x_BME: Tensor, y_BNE: Tensor) -> Tensor:
        _, (key, value, p_BN) = twin._between_cells(y_BNE, y_BNE.shape[1])
        entry = PresentKVCacheEntry(key=key, value=value, presence=p_BN)
        update, _ = twin._between_cells(x_BME, 0, entry)
        return x_BME + update

    of_test_rows = (_attention(twin, CELLS, "cells", kv_heads=1),)
    yield _specimen("between cells, test rows", twin, of_test_rows, test, own_sources=False)
    yield _specimen(
        "between cells, from a cache", twin, of_test_rows, from_a_cache, own_sources=False
    )


def _without(twin: Any, attention: str) -> Any:
    """A copy of a block in which one attention adds nothing."""
    silent = copy.deepcopy(twin)
    with torch.no_grad():
        getattr(silent, attention).out_projection.weight.zero_()
    return silent


def _attention(
    twin: Any, attribute: str, stream: str, kv_heads: int | None = None
) -> AttentionStep:
    attention = getattr(twin, attribute)
    projections = (
        attention.q_projection,
        attention.k_projection,
        attention.v_projection,
        attention.out_projection,
    )
    return AttentionStep(projections, attention.num_heads, stream, stream, kv_heads=kv_heads)


def _norm(twin: Any, attribute: str) -> NormStep:
    return NormStep(getattr(twin, attribute), attribute, gated=twin.gates.full)


def _feed_forward(twin: Any) -> tuple[FeedForwardStep, NormStep]:
    return FeedForwardStep(twin.mlp, "ffn", gated=twin.gates.full), _norm(twin, NORMS[2])


def _specimen(
    name: str,
    twin: Any,
    steps: tuple[Step, ...],
    run: Callable[[Tensor, Tensor], Tensor],
    *,
    own_sources: bool = True,
) -> Specimen:
    gates: Gates = twin.gates
    # Without full gates a norm's presence is never asked for; the laws draw carriers by its tau.
    tau = {stream: gates.tau.get(stream, 8.0) for stream in twin.streams} if gates.tau else {}
    width = twin.mlp[2].weight.shape[0]
    return Specimen(name, width, steps, run, tau, gates.eps_den, own_sources)
