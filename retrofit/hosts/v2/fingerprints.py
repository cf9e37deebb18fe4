"""Fingerprints of the upstream methods that the v2 twins override or rely on.

Checked against: tabpfn 9.2.0.
"""

from __future__ import annotations

from retrofit.hosts.upstream import SHARED

_V2 = "tabpfn.architectures.tabpfn_v2"

KNOWN: dict[str, frozenset[str]] = {
    **SHARED,
    f"{_V2}:AlongRowAttention.forward": frozenset({"e84c87a5e6f24e01"}),
    f"{_V2}:AlongColumnAttention.forward": frozenset({"ce988f7e13db7cfe"}),
    f"{_V2}:TabPFNBlock.forward": frozenset({"b157786e9857d30a"}),
    f"{_V2}:LowerPrecisionLayerNorm.forward": frozenset({"6462a88b51da6fc3"}),
    f"{_V2}:TabPFNV2.forward": frozenset({"5f5c08d818c54fa4"}),
    f"{_V2}:TabPFNV2._decode": frozenset({"bbb087a3510f74fe"}),
    f"{_V2}:TabPFNV2Cache.to": frozenset({"f0520217881fd02e"}),
    f"{_V2}:_pad_and_reshape_feature_groups": frozenset({"752f5da866ecfeb1"}),
    f"{_V2}:_remove_constant_features": frozenset({"f740f410ba1295e2"}),
    f"{_V2}:_generate_nan_and_inf_indicator": frozenset({"d1446245e4fd3373"}),
    f"{_V2}:_impute_nan_and_inf_with_mean": frozenset({"ad33e32cbc411330"}),
    f"{_V2}:_normalize_feature_groups": frozenset({"29e10ffab6a6b566"}),
    f"{_V2}:_prepare_targets": frozenset({"5357c690a518b824"}),
    f"{_V2}:TabPFNV2.add_column_embeddings": frozenset({"d75c2dfcda5db791"}),
    f"{_V2}:TabPFNV2._pad_and_group_features": frozenset({"06d3ca9c2211d216"}),
    f"{_V2}:TabPFNV2._embed_features": frozenset({"74a4d7fe56d86f6d"}),
    f"{_V2}:TabPFNV2._embed_targets": frozenset({"42e4dc4ec0f25a51"}),
    f"{_V2}:TabPFNV2._embed_nan_target": frozenset({"5a4fa71bd52529f0"}),
    f"{_V2}:TabPFNV2.load_state_dict": frozenset({"4dee7486a161ed1c"}),
    f"{_V2}:_constant_feature_mask": frozenset({"70f7cff7ba0f21f3"}),
    f"{_V2}:_fit_feature_group_scaling": frozenset({"9401858307e8809d"}),
}
