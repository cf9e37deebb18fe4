"""Fingerprints of the upstream methods that the v2.5 twins override or rely on.

Checked against: tabpfn 9.2.0.
"""

from __future__ import annotations

from retrofit.hosts.upstream import SHARED

_V2_5 = "tabpfn.architectures.tabpfn_v2_5"

KNOWN: dict[str, frozenset[str]] = {
    **SHARED,
    f"{_V2_5}:AlongRowAttention.forward": frozenset({"e84c87a5e6f24e01"}),
    f"{_V2_5}:AlongColumnAttention.forward": frozenset({"2a33d56e8755f3fa"}),
    f"{_V2_5}:TabPFNBlock.forward": frozenset({"3a2fb3d615b949c4"}),
    f"{_V2_5}:LowerPrecisionLayerNorm.forward": frozenset({"cf94ea0735a7fa11"}),
    f"{_V2_5}:TabPFNV2p5.forward": frozenset({"8f6ddce320e8fde9"}),
    f"{_V2_5}:TabPFNV2p5._decode": frozenset({"03a5b807d7b38458"}),
    f"{_V2_5}:TabPFNV2p5Cache.to": frozenset({"c3067b645fd5f22d"}),
    f"{_V2_5}:_pad_and_reshape_feature_groups": frozenset({"02546fc39b10e822"}),
    f"{_V2_5}:_remove_constant_features": frozenset({"2f0152a8fbc25606"}),
    f"{_V2_5}:_generate_nan_and_inf_indicator": frozenset({"42f9ff47d9af9026"}),
    f"{_V2_5}:_impute_nan_and_inf_with_mean": frozenset({"bec380816b58eddf"}),
    f"{_V2_5}:_normalize_feature_groups": frozenset({"480b93dcb8743358"}),
    f"{_V2_5}:_prepare_targets": frozenset({"7005e3b5d073e902"}),
    f"{_V2_5}:AddThinkingRows.forward": frozenset({"c6ee5a7a8466999a"}),
    f"{_V2_5}:TabPFNV2p5._add_column_embeddings": frozenset({"0cf3e974ebe14efd"}),
    f"{_V2_5}:TabPFNV2p5._preprocess_and_embed_features": frozenset({"a3eb6fe63221b708"}),
    f"{_V2_5}:TabPFNV2p5._preprocess_and_embed_targets": frozenset({"c37e62c6f645758f"}),
    f"{_V2_5}:_impute_target_nan_and_inf": frozenset({"b919b67701da7fe4"}),
    f"{_V2_5}:TabPFNV2p5.load_state_dict": frozenset({"8d4f23d6bb1d5bca"}),
}
