"""Short names of stages, for tables and axes."""

from __future__ import annotations

_SHORT = (
    ("feature_distribution_embedder.layers.", "embedder "),
    (".cross_attn_block1", " induce"),
    (".cross_attn_block2", " read"),
    ("column_aggregator.blocks.", "aggregator "),
    ("column_aggregator.cls_tokens", "CLS tokens"),
    ("column_aggregator.out_ln", "aggregator norm"),
    ("icl_blocks.", "ICL "),
    ("icl_y_encoder", "row targets"),
    ("output_norm", "output norm"),
)


def short_stage(stage: str) -> str:
    """The stage as a reader would call it."""
    for long, short in _SHORT:
        stage = stage.replace(long, short)
    return stage
