"""The configuration of a TabPFN v3.5 in memory, which does not carry it, read from its parts."""

from __future__ import annotations

from typing import Any

from tabpfn.architectures.tabpfn_v3_5 import TabPFNV3p5Config


def read_config(model: Any) -> TabPFNV3p5Config:
    """What ``get_architecture`` makes a model of this size and these settings from."""
    induced, aggregator, cells = (
        model.feature_distribution_embedder.layers,
        model.column_aggregator,
        model.x_embed,
    )
    blocks, heads = model.icl_blocks, model.heads
    attention, decoder = blocks[0].icl_attention, heads.many_class_decoder
    scaling = attention.softmax_scaling_layer
    kv_heads = None if attention.num_kv_heads == attention.num_heads else attention.num_kv_heads
    budget = model.estimator_batch_budget
    return TabPFNV3p5Config(
        max_num_classes=model.max_num_classes,
        num_buckets=heads.output_projection.out_features,
        embed_dim=model.emsize,
        dist_embed_num_blocks=len(induced),
        dist_embed_num_heads=induced[0].cross_attn_block1.attn.num_heads,
        dist_embed_num_inducing_points=induced[0].num_inducing_points,
        feature_group_size=model.feature_group_size,
        feat_agg_num_blocks=len(aggregator.blocks),
        feat_agg_num_heads=aggregator.blocks[0].attention.num_heads,
        feat_agg_num_cls_tokens=aggregator.num_cls_tokens,
        feat_agg_rope_base=_rope_base(aggregator.rope.freqs),
        nlayers=len(blocks),
        icl_num_heads=attention.num_heads,
        icl_num_kv_heads=kv_heads,
        icl_num_kv_heads_test=attention.num_kv_heads_test,
        decoder_head_dim=decoder.head_dim,
        decoder_num_heads=decoder.num_heads,
        decoder_use_softmax_scaling=decoder.softmax_scaling_layer is not None,
        ff_factor=model.ff_factor,
        softmax_scaling_mlp_hidden_dim=scaling.base_mlp[0].out_features,
        fourier_encoding_num_frequencies=cells.fourier.frequencies.shape[1],
        cell_ecdf_num_frequencies=cells.ecdf_num_frequencies,
        cell_ecdf_num_buckets=model.ecdf_num_buckets,
        cell_embed_row_chunk_size=cells.row_chunk_size,
        inference_chunk_cells=model.inference_chunk_cells,
        max_batched_estimator_rows=budget.rows,
        max_batched_estimator_cells=budget.cells,
        inference_col_chunk_size=model.inference_col_chunk_size,
    )


def _rope_base(freqs: Any) -> float:
    """The base that inverse frequencies (F,) come from, a whole number; one tells nothing of it."""
    if len(freqs) == 1:
        return TabPFNV3p5Config.feat_agg_rope_base
    return float(round(float(freqs[1].double() ** -len(freqs))))
