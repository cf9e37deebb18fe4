"""The patcher leaves the caller's things alone, can be undone, and refuses before it touches."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from sklearn.base import clone
from tabpfn import TabPFNRegressor
from tabpfn.architectures import tabpfn_v3
from torch import nn

import retrofit
from retrofit import CalibrationTable, Host, errors
from retrofit.hosts.clone import alias, tensors

if TYPE_CHECKING:
    from collections.abc import Callable

Table = tuple[np.ndarray, ...]


def predict(host: Host, table: Table, **settings: object) -> np.ndarray:
    X, y, X_test = table
    defaults = {"n_estimators": 2, "random_state": 0, "device": "cpu"}
    return host.regressor(**(defaults | settings)).fit(X, y).predict(X_test)


def bits(host: Host) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in tensors(host.model).items()}


@pytest.fixture
def host(build_host: Callable[..., Host]) -> Host:
    return build_host()


@pytest.mark.parametrize("variant", ["oa", "full"])
def test_the_callers_model_is_untouched(
    variant: str, host: Host, table: Table, calibration: list[CalibrationTable]
) -> None:
    before_bits, before = bits(host), predict(host, table)
    flags = {name: p.requires_grad for name, p in host.model.named_parameters()}
    classes = {name: type(module) for name, module in host.model.named_modules()}
    patched = retrofit.patch(host, variant, tau=1.0, tables=calibration)
    assert not np.array_equal(predict(patched, table), before)
    patched.regressor(inference_precision=torch.float64, n_estimators=1).fit(*table[:2])

    assert bits(host) == before_bits
    assert {name: p.requires_grad for name, p in host.model.named_parameters()} == flags
    assert {name: type(module) for name, module in host.model.named_modules()} == classes
    assert np.array_equal(predict(host, table), before)
    assert not any(p.requires_grad for p in patched.model.parameters())
    assert not patched.model.training


def test_a_built_model_cache_does_not_leak_the_patch(
    monkeypatch: pytest.MonkeyPatch, table: Table, calibration: list[CalibrationTable]
) -> None:
    """tabpfn hands one built module to every estimator when TABPFN_MODEL_CACHE_SIZE is set."""
    from tabpfn.model_loading import clear_built_model_cache

    monkeypatch.setenv("TABPFN_MODEL_CACHE_SIZE", "2")
    clear_built_model_cache()
    try:
        host = retrofit.load_host("mini")
        settings = {"n_estimators": 1, "device": "cpu", "inference_precision": torch.float32}
        plain = TabPFNRegressor(model_path=host.path, **settings)
        before = plain.fit(*table[:2]).predict(table[2])
        patched = retrofit.patch(host, "full", tau=10.0, tables=calibration)
        predict(patched, table)
        again = TabPFNRegressor(model_path=host.path, **settings)
        assert np.array_equal(again.fit(*table[:2]).predict(table[2]), before)
        assert np.array_equal(predict(retrofit.load_host("mini"), table, n_estimators=1), before)
    finally:
        clear_built_model_cache()


@pytest.mark.parametrize("variant", ["oa", "full"])
def test_restore_is_bit_identical(
    variant: str, host: Host, table: Table, calibration: list[CalibrationTable]
) -> None:
    patched = retrofit.patch(host, variant, tau=1.0, tables=calibration)
    stock = patched.restore()
    assert bits(stock) == bits(host)
    assert [type(m) for m in stock.model.modules()] == [type(m) for m in host.model.modules()]
    assert np.array_equal(predict(stock, table), predict(host, table))
    assert stock.sha256 == host.sha256
    again = retrofit.patch(stock, variant, tau=1.0, tables=calibration)
    assert np.array_equal(predict(again, table), predict(patched, table))


@pytest.mark.parametrize("frozen", [False, True])
def test_restore_gives_the_flags_back(
    frozen: bool, host: Host, calibration: list[CalibrationTable]
) -> None:
    """torch picks matrix kernels by requires_grad, so the flags are part of the model's bits."""
    model = alias(host.model).requires_grad_(not frozen)
    host = replace(host, model=model)
    flags = {name: p.requires_grad for name, p in model.named_parameters()}
    stock = retrofit.patch(host, "full", tau=1.0, tables=calibration).restore().model
    assert {name: p.requires_grad for name, p in stock.named_parameters()} == flags
    x, y = torch.randn(12, 3, 4), torch.randn(8)
    with torch.inference_mode():
        assert torch.equal(stock(x, y), model(x, y))


def test_host_weights_keep_their_keys(host: Host, calibration: list[CalibrationTable]) -> None:
    patched = retrofit.patch(host, "full", tau=1.0, tables=calibration)
    added = set(patched.model.state_dict()) - set(host.model.state_dict())
    assert set(host.model.state_dict()) < set(patched.model.state_dict())
    assert all(name.startswith("oretro_") for name in added)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_and_pickles_stay_patched_and_independent(
    copied: Callable[[nn.Module], nn.Module], host: Host, calibration: list[CalibrationTable]
) -> None:
    model = retrofit.patch(host, "full", tau=1.0, tables=calibration).model
    x, y = torch.randn(12, 1, 4), torch.randn(8)
    expected = model(x, y)
    twin = copied(model)
    assert torch.equal(twin(x, y), expected)
    with torch.no_grad():
        next(twin.icl_blocks[0].icl_attention.v_projection.parameters()).mul_(2)
    assert not torch.equal(twin(x, y), expected)
    assert torch.equal(model(x, y), expected)


@pytest.mark.parametrize("copied", [clone, lambda r: pickle.loads(pickle.dumps(r))])
def test_a_copied_regressor_predicts_the_same_bits(
    copied: Callable[[TabPFNRegressor], TabPFNRegressor],
    host: Host,
    table: Table,
    calibration: list[CalibrationTable],
) -> None:
    patched = retrofit.patch(host, "full", tau=1.0, tables=calibration)
    regressor = patched.regressor(n_estimators=2, random_state=0, device="cpu")
    expected = copied(regressor).fit(*table[:2]).predict(table[2])
    assert np.array_equal(regressor.fit(*table[:2]).predict(table[2]), expected)
    assert not np.array_equal(predict(host, table), expected)


def test_two_devices_get_two_patched_models(
    host: Host, table: Table, calibration: list[CalibrationTable]
) -> None:
    patched = retrofit.patch(host, "full", tau=1.0, tables=calibration)
    expected = predict(patched, table, n_estimators=4)
    spread = predict(patched, table, n_estimators=4, device=["cpu", "cpu:0"])
    assert np.abs(spread - expected).max() < 1e-5 * table[1].std()


def _training(host: Host) -> Host:
    model = alias(host.model)
    model.icl_blocks[0].mlp.train()
    return replace(host, model=model)


def _hooked(host: Host) -> Host:
    model = alias(host.model)
    model.output_norm.register_forward_hook(lambda *_: None)
    return replace(host, model=model)


def _own_forward(host: Host) -> Host:
    model = alias(host.model)
    model.icl_blocks[1].forward = lambda x, *_, **__: (x, None)
    return replace(host, model=model)


def _missing(host: Host) -> Host:
    model = alias(host.model)
    model.icl_blocks[1].mlp = nn.Identity().eval()
    return replace(host, model=model)


def _extra(host: Host) -> Host:
    model = alias(host.model)
    model.spare = copy.deepcopy(model.icl_blocks[0])
    return replace(host, model=model)


def _subclass(host: Host) -> Host:
    model = alias(host.model)
    model.__class__ = type("Mine", (type(model),), {})
    return replace(host, model=model)


REFUSED = [
    (_training, errors.TrainingModeError, r"icl_blocks\.0\.mlp"),
    (_hooked, errors.UnsupportedHostError, r"output_norm has forward hooks"),
    (_own_forward, errors.UnsupportedHostError, r"icl_blocks\.1 has a forward of its own"),
    (_missing, errors.SiteMismatchError, r"icl_blocks\.1\.mlp should be a MLP and is a Identity"),
    (_extra, errors.SiteMismatchError, r"spare.* that the map does not know"),
    (_subclass, errors.UnsupportedHostError, r"is a Mine, not a TabPFNV3"),
]


@pytest.mark.parametrize(
    ("spoil", "error", "message"), REFUSED, ids=lambda x: getattr(x, "__name__", "")
)
def test_unfit_hosts_are_refused_untouched(
    spoil: Callable[[Host], Host], error: type[Exception], message: str, host: Host
) -> None:
    spoilt = spoil(host)
    before, classes = bits(spoilt), [type(module) for module in spoilt.model.modules()]
    assert retrofit.plan(spoilt, "full").problems
    with pytest.raises(error, match=message):
        retrofit.patch(spoilt, "full", tau=1.0)
    assert bits(spoilt) == before
    assert [type(module) for module in spoilt.model.modules()] == classes


def test_patching_twice_is_refused(host: Host, calibration: list[CalibrationTable]) -> None:
    patched = retrofit.patch(host, "oa", tau=1.0, tables=calibration)
    with pytest.raises(errors.AlreadyPatchedError, match="already"):
        retrofit.patch(patched, "full", tau=1.0)


def test_an_estimator_is_refused(host: Host, table: Table) -> None:
    fitted = host.regressor(n_estimators=1, device="cpu").fit(*table[:2])
    with pytest.raises(errors.UnsupportedHostError, match="a fitted HostRegressor"):
        retrofit.patch(fitted, "oa", tau=1.0)


def test_a_classifier_is_refused(host: Host) -> None:
    config, _ = tabpfn_v3.parse_config({"max_num_classes": 3, "nlayers": 1})
    with pytest.raises(errors.UnsupportedHostError, match="multiclass"):
        Host.from_model(tabpfn_v3.get_architecture(config).eval(), host.inference_config)


@pytest.mark.parametrize(
    "settings",
    [
        {"tau": 0.0},
        {"tau": -1.0},
        {"tau": float("nan")},
        {"tau": {"nonsense": 1.0}},
        {"tau": 1.0, "presence": "one"},
        {"tau": 1.0, "presence": "nonsense"},
        {"tau": 1.0, "target_presence": 0.5},
        {"presence": "one", "target_presence": 0.5},
        {"tau": 1.0, "eps_den": -1e-8},
        {"tau": 1.0, "eps_mode": "sometimes"},
    ],
    ids=str,
)
def test_contradictory_settings_are_refused(settings: dict[str, object], host: Host) -> None:
    with pytest.raises(errors.VariantError):
        retrofit.patch(host, "oa", **settings)


def test_an_unknown_variant_names_the_known_ones(host: Host) -> None:
    with pytest.raises(errors.VariantError, match="oa, full"):
        retrofit.patch(host, "half")


def test_an_unknown_upstream_method_is_named(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    from retrofit.hosts.v3 import fingerprints as v3_fingerprints

    method = "tabpfn.architectures.tabpfn_v3:TransformerBlock.forward_cross"
    monkeypatch.setitem(v3_fingerprints.KNOWN, method, frozenset({"0" * 16}))
    with pytest.raises(errors.UnsupportedHostError, match=r"TransformerBlock\.forward_cross"):
        retrofit.patch(host, "oa", tau=1.0)


@pytest.mark.parametrize("variant", ["oa", "full"])
@pytest.mark.parametrize("batch", [1, 8])
def test_nan_inside_a_patched_module_is_an_error(
    variant: str, batch: int, host: Host, table: Table, calibration: list[CalibrationTable]
) -> None:
    """Stock turns NaN logits into zeros, which look like a prediction."""
    patched = retrofit.patch(host, variant, tau=1.0, tables=calibration)
    with torch.no_grad():
        bad = torch.full_like(patched.model.icl_blocks[1].mlp[2].weight, torch.nan)
        patched.model.icl_blocks[1].mlp[2].weight = nn.Parameter(bad, requires_grad=False)
    with pytest.raises(errors.NonFiniteOutputError, match="NaN"):
        predict(patched, table, n_estimators=batch)


def test_a_stock_cache_is_refused(host: Host, calibration: list[CalibrationTable]) -> None:
    x, y = torch.randn(12, 1, 4), torch.randn(12)
    with torch.no_grad():
        _, cache = host.model(x, y, return_kv_cache=True)
    patched = retrofit.patch(host, "oa", tau=1.0, tables=calibration)
    with pytest.raises(errors.UnsupportedModeError, match="stock model"):
        patched.model(x, y, kv_cache=cache, x_is_test_only=True)
