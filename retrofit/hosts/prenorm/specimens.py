"""Specimens of pre-norm twins: every way in which the forward pass calls a block.

Shapes: B batch, S receivers, J sources, N train rows, M test rows, E model width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from retrofit.hosts.anatomy import AttentionStep, FeedForwardStep, NormStep, Specimen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    from retrofit.hosts.anatomy import Step
    from retrofit.hosts.gates import Gates

SMALL: dict[str, Any] = {
    "embed_dim": 16,
    "dist_embed_num_blocks": 1,
    "dist_embed_num_heads": 2,
    "dist_embed_num_inducing_points": 3,
    "feat_agg_num_blocks": 2,
    "feat_agg_num_heads": 2,
    "feat_agg_num_cls_tokens": 2,
    "nlayers": 1,
    "icl_num_heads": 4,
    "icl_num_kv_heads": 2,
    "icl_num_kv_heads_test": 1,
    "num_buckets": 10,
}
"""A model as small as one with every kind of block can be."""

CHUNKS = 3


def specimens(model: Any) -> Iterator[Specimen]:
    """Every kind of twin in a patched model, in every way in which it is called."""
    yield _cross(model.feature_distribution_embedder.layers[0].cross_attn_block1)
    aggregator = model.column_aggregator
    yield from _rows(aggregator.blocks[0], aggregator.rope)
    yield from _icl(model.icl_blocks[0])
    if hasattr(model.output_norm, "gates"):
        yield _bare_norm(model.output_norm)


def _cross(twin: Any) -> Specimen:
    attention = _attention(
        twin.gates,
        twin.attn,
        ("receiver", "source"),
        (twin.layernorm_q, twin.layernorm_kv),
        scaling=twin.attn.softmax_scaling_layer,
    )
    steps = attention, _feed_forward(twin, twin.layernorm2)
    return _specimen("cross", twin, steps, twin, own_sources=False)


def _rows(twin: Any, rope: Any) -> Iterator[Specimen]:
    norms = twin.layernorm, twin.layernorm
    attention = _attention(twin.gates, twin.attention, ("carrier",) * 2, norms, rotary=rope)
    steps = attention, _feed_forward(twin, twin.layernorm_mlp)

    def whole(x_BSE: Tensor, _: Tensor) -> Tensor:
        out: Tensor = twin(x_BSE[:, None], rope=rope)
        return out[:, 0]

    def in_chunks(x_BSE: Tensor, _: Tensor) -> Tensor:
        # Chunks overwrite the carriers.
        out: Tensor = twin(x_BSE[:, None].clone(), rope=rope, save_peak_memory_factor=CHUNKS)
        return out[:, 0]

    def read(x_BSE: Tensor, y_BJE: Tensor) -> Tensor:
        out: Tensor = twin.forward_cross(x_BSE[:, None], y_BJE[:, None], rope)
        return out[:, 0]

    yield _specimen("self", twin, steps, whole)
    yield _specimen("self, in chunks", twin, steps, in_chunks)
    yield _specimen("forward_cross", twin, steps, read, own_sources=False)


def _icl(twin: Any) -> Iterator[Specimen]:
    norms = twin.layernorm, twin.layernorm
    scaling = twin.icl_attention.softmax_scaling_layer

    def steps(kv_heads: int | None) -> tuple[AttentionStep, FeedForwardStep]:
        streams = "carrier", "carrier"
        attention = _attention(
            twin.gates, twin.icl_attention, streams, norms, scaling=scaling, kv_heads=kv_heads
        )
        return attention, _feed_forward(twin, twin.layernorm_mlp)

    def train(x_BNE: Tensor, _: Tensor) -> Tensor:
        rows, count = torch.cat((x_BNE, x_BNE[:, :1]), dim=1), x_BNE.shape[1]
        out: Tensor = twin(rows, count)[0]
        return out[:, :count]

    def test(x_BME: Tensor, y_BNE: Tensor, **options: Any) -> Tensor:
        rows, count = torch.cat((y_BNE, x_BME), dim=1), y_BNE.shape[1]
        out: Tensor = twin(rows, count, **options)[0]
        return out[:, count:]

    def in_chunks(x_BME: Tensor, y_BNE: Tensor) -> Tensor:
        return test(x_BME, y_BNE, save_peak_memory_factor=CHUNKS)

    def making_a_cache(x_BME: Tensor, y_BNE: Tensor) -> Tensor:
        return test(x_BME, y_BNE, return_kv=True)

    def from_a_cache(x_BME: Tensor, y_BNE: Tensor) -> Tensor:
        _, entry = twin(y_BNE, y_BNE.shape[1], return_kv=True)
        out: Tensor = twin(x_BME, 0, cached_kv=entry)[0]
        return out

    yield _specimen("ICL, train rows", twin, steps(None), train)
    of_test_rows = steps(twin.icl_attention.num_kv_heads_test)
    for name, run in (
        ("ICL, test rows", test),
        ("ICL, test rows in chunks", in_chunks),
        ("ICL, making a cache", making_a_cache),
        ("ICL, from a cache", from_a_cache),
    ):
        yield _specimen(name, twin, of_test_rows, run, own_sources=False)


def _bare_norm(twin: Any) -> Specimen:
    def run(x_BSE: Tensor, _: Tensor) -> Tensor:
        out: Tensor = twin(x_BSE)
        return out

    return _specimen("bare norm", twin, (NormStep(twin, "carrier"),), run)


def pre_head(twin: Any) -> Specimen:
    """A feed-forward between the blocks and a head."""

    def run(x_BSE: Tensor, _: Tensor) -> Tensor:
        out: Tensor = twin(x_BSE)
        return out

    return _specimen("before the head", twin, (_feed_forward(twin, twin.norm),), run)


def _specimen(
    name: str,
    twin: Any,
    steps: tuple[Step, ...],
    run: Callable[[Tensor, Tensor], Tensor],
    *,
    own_sources: bool = True,
) -> Specimen:
    gates: Gates = twin.gates
    tau, first = dict(gates.tau or {}), steps[0]
    ends_in: Any = first.projections[-1] if isinstance(first, AttentionStep) else first.norm
    width = ends_in.weight.shape[0]
    return Specimen(name, width, steps, run, tau, gates.eps_den, own_sources)


def _attention(
    gates: Gates,
    attention: Any,
    streams: tuple[str, str],
    norms: tuple[nn.Module, nn.Module],
    **how: Any,
) -> AttentionStep:
    projections = (
        attention.q_projection,
        attention.k_projection,
        attention.v_projection,
        attention.out_projection,
    )
    if hasattr(attention, "q_norm"):
        how["head_norms"] = attention.q_norm, attention.k_norm
    return AttentionStep(
        projections, attention.num_heads, *streams, *norms, gated_norms=gates.full, **how
    )


def _feed_forward(twin: Any, norm: nn.Module) -> FeedForwardStep:
    return FeedForwardStep(twin.mlp, "ffn", norm, gated=twin.gates.full, gated_norm=twin.gates.full)
