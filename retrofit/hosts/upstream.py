"""Fingerprints of the upstream methods that the twins of every generation rely on.

Checked against: tabpfn 9.2.0.
"""

from __future__ import annotations

_KV = "tabpfn.architectures.kv_cache"
_CHUNKED = "tabpfn.architectures.shared.chunked_evaluate"
_OPS = "tabpfn.preprocessing.torch.ops"
_SCALER = "tabpfn.preprocessing.torch.torch_standard_scaler:TorchStandardScaler"

SHARED: dict[str, frozenset[str]] = {
    "tabpfn.model_loading:_build_model": frozenset({"5b0f0ffbc620072d"}),
    f"{_KV}:KVCacheEntry.to": frozenset({"9f653bc109cba077"}),
    f"{_KV}:KVCacheEntry.at_storage_dtype": frozenset({"6804749626c6a717"}),
    f"{_KV}:KVCacheEntry.concatenate": frozenset({"3edcde43fac44bb0"}),
    f"{_KV}:KVCacheEntry.quantize": frozenset({"a4fd1e713850b55b"}),
    f"{_KV}:QuantizedKVCacheEntry.to": frozenset({"522c9f29a1fbe146"}),
    f"{_KV}:QuantizedKVCacheEntry.concatenate": frozenset({"6f9f9b3f69991c22"}),
    f"{_KV}:QuantizedKVCacheEntry.dequantize": frozenset({"6b536de1bc59b10d"}),
    f"{_KV}:KVCache._consume_and_concatenate_layers": frozenset({"94f2a1195719dbf2"}),
    f"{_CHUNKED}:chunked_evaluate_maybe_inplace": frozenset({"dfccd3e278c19a59"}),
    f"{_SCALER}.fit": frozenset({"e51d120da21fc5c7"}),
    f"{_SCALER}.transform": frozenset({"15825423a11c4ee6"}),
    f"{_OPS}:torch_nanmean": frozenset({"5e0ce7ab73ad88a3"}),
    f"{_OPS}:select_features": frozenset({"16b4dd572e4e6005"}),
    f"{_OPS}:torch_nanstd": frozenset({"8f14d9500507fba7"}),
}

# What `predict_tables` relies on besides: how an estimator asks its engine, and that the model.
ENGINE: dict[str, frozenset[str]] = {
    "tabpfn.inference:InferenceEngineCachePreprocessing.iter_outputs": frozenset(
        {"c27cbd1233a4d7fb"}
    ),
    "tabpfn.inference:_call_model_on_members": frozenset({"815648daf0330627"}),
    "tabpfn.regressor:TabPFNRegressor._iter_forward_executor": frozenset({"f02ec0a6e5e08639"}),
}
