"""Fingerprints of the upstream methods that the v3 twins override or rely on.

Checked against: tabpfn 9.2.0.
"""

from __future__ import annotations

from retrofit.hosts.upstream import SHARED

_V3 = "tabpfn.architectures.tabpfn_v3"

KNOWN: dict[str, frozenset[str]] = {
    **SHARED,
    f"{_V3}:CrossAttention.forward": frozenset({"42ab197c731ddac0"}),
    f"{_V3}:CrossAttentionBlock.forward": frozenset({"980263d95740c709"}),
    f"{_V3}:Attention.forward": frozenset({"2491fb1a7e4d8d23"}),
    f"{_V3}:TransformerBlock.forward": frozenset({"e53e541711d10f82"}),
    f"{_V3}:TransformerBlock.forward_cross": frozenset({"8f1765c8f72897cf"}),
    f"{_V3}:ICLAttention.forward": frozenset({"8c0385992e8d71fa"}),
    f"{_V3}:ICLTransformerBlock.forward": frozenset({"e159cf917358f3e1"}),
    f"{_V3}:SoftmaxScalingMLP.forward": frozenset({"12f0329b5b58c610"}),
    f"{_V3}:_batched_scaled_dot_product_attention": frozenset({"d49d1bce153f7224"}),
    f"{_V3}:_DtypeMatchingRMSNorm.forward": frozenset({"64994b4e124d1be4"}),
    f"{_V3}:RotaryEmbedding.rotate_queries_or_keys": frozenset({"227da7328bf19d8c"}),
    f"{_V3}:ColumnAggregator.forward": frozenset({"b7f8ae9e7910e6c2"}),
    f"{_V3}:InducedSelfAttentionBlock._induced_attention": frozenset({"f0aefcce28d08ac6"}),
    f"{_V3}:TabPFNV3.forward": frozenset({"17c6d59009e47571"}),
    f"{_V3}:TabPFNV3._process_col_chunk": frozenset({"2b836f87cc6588eb"}),
    f"{_V3}:TabPFNV3._process_row_chunk": frozenset({"af86319c1aadcb79"}),
    f"{_V3}:TabPFNV3Cache.to": frozenset({"d65dbc6308813fcc"}),
    f"{_V3}:TabPFNV3Cache.concatenate": frozenset({"41ed0ff96bdd039f"}),
    f"{_V3}:TabPFNV3Cache.quantize": frozenset({"4d2055eab460beeb"}),
    f"{_V3}:TabPFNV3._preprocess_and_group": frozenset({"27db702170d7b956"}),
    f"{_V3}:TabPFNV3._preprocess_raw": frozenset({"abf5fe0f3a75f63c"}),
    f"{_V3}:TabPFNV3._group_features": frozenset({"d96dee2d7331ebfb"}),
    f"{_V3}:TabPFNV3._prepare_y": frozenset({"3779b67b779a8ed2"}),
    f"{_V3}:TabPFNV3._embed_icl_y": frozenset({"d11a11b8109b8e63"}),
    f"{_V3}:TabPFNV3._embed_col_y": frozenset({"8c78c17fcd0c2739"}),
    f"{_V3}:TabPFNV3._stages_0_to_2": frozenset({"46a240a70a9f2918"}),
    f"{_V3}:TabPFNV3._compute_all_inducing_hidden": frozenset({"2117e7ff0653fc48"}),
    f"{_V3}:InducedSelfAttentionBlock.forward": frozenset({"df882b993436d9dd"}),
    f"{_V3}:FeatureDistributionEmbedder.forward": frozenset({"5227ba645c236e11"}),
    f"{_V3}:apply_rope": frozenset({"e344f8405f63098d"}),
    f"{_V3}:_safe_log_seqlen": frozenset({"1608dee65a7f8f32"}),
    f"{_V3}:_prepare_targets": frozenset({"297263ef95b5a3e6"}),
    f"{_V3}:_impute_nan_and_inf_with_mean": frozenset({"9a8ade52b5ae64a8"}),
    f"{_V3}:_impute_target_nan_and_inf": frozenset({"64897aba01eb0354"}),
    f"{_V3}:_generate_nan_and_inf_indicator": frozenset({"4c85cc73e9caed75"}),
}
