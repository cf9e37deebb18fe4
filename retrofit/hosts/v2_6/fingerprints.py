"""Fingerprints of the upstream methods that the v2.6 twins override or rely on.

Checked against: tabpfn 9.2.0.
"""

from __future__ import annotations

from retrofit.hosts.upstream import SHARED

_V2_6 = "tabpfn.architectures.tabpfn_v2_6"

KNOWN: dict[str, frozenset[str]] = {
    **SHARED,
    f"{_V2_6}:AlongRowAttention.forward": frozenset({"e84c87a5e6f24e01"}),
    f"{_V2_6}:AlongColumnAttention.forward": frozenset({"2a33d56e8755f3fa"}),
    f"{_V2_6}:TabPFNBlock.forward": frozenset({"3a2fb3d615b949c4"}),
    f"{_V2_6}:LowerPrecisionRMSNorm.forward": frozenset({"cf94ea0735a7fa11"}),
    f"{_V2_6}:TabPFNV2p6.forward": frozenset({"c53c70e64db7adad"}),
    f"{_V2_6}:TabPFNV2p6._decode": frozenset({"03a5b807d7b38458"}),
    f"{_V2_6}:TabPFNV2p6Cache.to": frozenset({"ac021df4f3c97ff6"}),
    f"{_V2_6}:_pad_and_reshape_feature_groups": frozenset({"02546fc39b10e822"}),
    f"{_V2_6}:_remove_constant_features": frozenset({"2f0152a8fbc25606"}),
    f"{_V2_6}:_generate_nan_and_inf_indicator": frozenset({"42f9ff47d9af9026"}),
    f"{_V2_6}:_impute_nan_and_inf_with_mean": frozenset({"bec380816b58eddf"}),
    f"{_V2_6}:_normalize_feature_groups": frozenset({"480b93dcb8743358"}),
    f"{_V2_6}:_prepare_targets": frozenset({"7005e3b5d073e902"}),
    f"{_V2_6}:AddThinkingRows.forward": frozenset({"c6ee5a7a8466999a"}),
    f"{_V2_6}:TabPFNV2p6._add_column_embeddings": frozenset({"0cf3e974ebe14efd"}),
    f"{_V2_6}:TabPFNV2p6._preprocess_and_embed_features": frozenset({"30d7e83a7e4b04ea"}),
    f"{_V2_6}:TabPFNV2p6._preprocess_and_embed_targets": frozenset({"c37e62c6f645758f"}),
    f"{_V2_6}:_impute_target_nan_and_inf": frozenset({"b919b67701da7fe4"}),
}
