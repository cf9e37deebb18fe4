"""Fingerprints of the upstream methods that the v3.5 twins override or rely on.

Checked against: tabpfn 9.2.0.
"""

from __future__ import annotations

from retrofit.hosts.upstream import SHARED

_V3_5 = "tabpfn.architectures.tabpfn_v3_5"

KNOWN: dict[str, frozenset[str]] = {
    **SHARED,
    f"{_V3_5}:CrossAttention.forward": frozenset({"26f457ec8244de24"}),
    f"{_V3_5}:CrossAttentionBlock.forward": frozenset({"eef3e21997ce93e2"}),
    f"{_V3_5}:Attention.forward": frozenset({"4f6605545f432143"}),
    f"{_V3_5}:TransformerBlock.forward": frozenset({"1abdd0aadf0adf65"}),
    f"{_V3_5}:TransformerBlock._attention_delta": frozenset({"d19d58518648a0cf"}),
    f"{_V3_5}:TransformerBlock._mlp_delta": frozenset({"83a8a2becab64160"}),
    f"{_V3_5}:TransformerBlock.forward_cross": frozenset({"d379d3a66fca9fd5"}),
    f"{_V3_5}:ICLAttention.forward": frozenset({"5bef5608073693ac"}),
    f"{_V3_5}:ICLTransformerBlock.forward": frozenset({"7b67ba6025983638"}),
    f"{_V3_5}:SoftmaxScalingMLP.forward": frozenset({"12f0329b5b58c610"}),
    f"{_V3_5}:_batched_scaled_dot_product_attention": frozenset({"8962a146d3fd3224"}),
    f"{_V3_5}:_DtypeMatchingRMSNorm.forward": frozenset({"efb68c2ec986dc33"}),
    f"{_V3_5}:RotaryEmbedding.rotate_queries_or_keys": frozenset({"227da7328bf19d8c"}),
    f"{_V3_5}:apply_rope": frozenset({"da25cca30aacb291"}),
    f"{_V3_5}:ColumnAggregator.forward": frozenset({"bf22ccf8ab6dc884"}),
    f"{_V3_5}:InducedSelfAttentionBlock._induced_attention": frozenset({"2d704acd65a25561"}),
    f"{_V3_5}:InducedSelfAttentionBlock.forward": frozenset({"53d3bed209128fc4"}),
    f"{_V3_5}:FeatureDistributionEmbedder.forward": frozenset({"a4fcf079e452e199"}),
    f"{_V3_5}:FourierPlusMetadataFeatureGroupEmbedder.forward": frozenset({"51ae3788a1a5e03c"}),
    f"{_V3_5}:FourierPlusMetadataFeatureGroupEmbedder._embed": frozenset({"2b2ac3886f677f58"}),
    f"{_V3_5}:_PreHeadMLP.forward": frozenset({"76086c062a405a7f"}),
    f"{_V3_5}:MultiTaskHeads.forward": frozenset({"42e3f948ae4cbe7a"}),
    f"{_V3_5}:TabPFNV3p5.forward": frozenset({"155cacd097f1042e"}),
    f"{_V3_5}:TabPFNV3p5._stages_0_to_2": frozenset({"7e6a437c777a79ba"}),
    f"{_V3_5}:TabPFNV3p5._compute_all_inducing_hidden": frozenset({"d8f110035beb7ddf"}),
    f"{_V3_5}:TabPFNV3p5._process_col_chunk": frozenset({"af35a843df51cc40"}),
    f"{_V3_5}:TabPFNV3p5._process_row_chunk": frozenset({"3eee3b331a81e018"}),
    f"{_V3_5}:TabPFNV3p5._preprocess_and_group": frozenset({"e4caacede727b6e3"}),
    f"{_V3_5}:TabPFNV3p5._preprocess_no_group": frozenset({"8d6842208fbad36c"}),
    f"{_V3_5}:TabPFNV3p5._preprocess_raw": frozenset({"1ae4502fd3ef8f6e"}),
    f"{_V3_5}:TabPFNV3p5._group_features": frozenset({"11c6db4f608097d9"}),
    f"{_V3_5}:TabPFNV3p5._group_feature_cols": frozenset({"9b9e2aed1dc31164"}),
    f"{_V3_5}:TabPFNV3p5._prepare_y": frozenset({"7bf10188f29fd5f7"}),
    f"{_V3_5}:TabPFNV3p5._embed_col_y": frozenset({"fb894a0efc837ddb"}),
    f"{_V3_5}:TabPFNV3p5._embed_icl_y": frozenset({"9c8299eefecc4ae2"}),
    f"{_V3_5}:TabPFNV3p5Cache.to": frozenset({"81744a1ba6b8101e"}),
    f"{_V3_5}:TabPFNV3p5Cache.concatenate": frozenset({"e4af8819d21d0df7"}),
    f"{_V3_5}:TabPFNV3p5Cache.quantize": frozenset({"85430126a11e5299"}),
    f"{_V3_5}:_build_ecdf_context": frozenset({"795a62277749472f"}),
    f"{_V3_5}:_ecdf_midrank_counts": frozenset({"a1e6f2b753c081af"}),
    f"{_V3_5}:_in_context_ecdf": frozenset({"95acd5ac5677f70b"}),
    f"{_V3_5}:_ecdf_fourier_features": frozenset({"728eee488cd3a258"}),
    f"{_V3_5}:_prepare_targets": frozenset({"297263ef95b5a3e6"}),
    f"{_V3_5}:_impute_nan_and_inf_with_mean": frozenset({"9a8ade52b5ae64a8"}),
    f"{_V3_5}:_impute_target_nan_and_inf": frozenset({"64897aba01eb0354"}),
    f"{_V3_5}:_generate_nan_and_inf_indicator": frozenset({"4c85cc73e9caed75"}),
    f"{_V3_5}:_safe_log_seqlen": frozenset({"1608dee65a7f8f32"}),
    "tabpfn.architectures.shared.compile_utils:compile_when_enabled": frozenset(
        {"9bd2fb33cdadef16"}
    ),
}
