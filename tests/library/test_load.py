"""Hosts by name: what is found, what is refused, and that nothing is created or contacted."""

from __future__ import annotations

import json
import pickle
import socket
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tabpfn import TabPFNRegressor
from tabpfn.constants import ModelVersion

import retrofit
import retrofit.patching.sources as load_module
from retrofit import Host, errors


def stock_parts(host: Host) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    with safe_open(host.path, framework="pt") as opened:
        return load_file(host.path), dict(opened.metadata())


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize("name", retrofit.official_names())
@pytest.mark.usefixtures("no_network")
def test_an_official_name_fails_fast_offline(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setattr(load_module, "get_cache_dir", lambda: cache)
    start = time.monotonic()
    with pytest.raises(errors.HostNotFoundError, match=r"no network.*accept the licence.*mini"):
        retrofit.load_host(name)
    assert time.monotonic() - start < 10
    assert not cache.exists()


def test_an_official_name_can_be_planned_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "get_cache_dir", lambda: tmp_path)
    description = retrofit.describe_host("v3")
    assert "not on this machine" in description.note
    assert retrofit.plan(description, "full").counts["attention"] == 33


@pytest.mark.usefixtures("no_network")
def test_an_unknown_name_lists_every_official_one() -> None:
    with pytest.raises(errors.HostNotFoundError) as raised:
        retrofit.load_host("v9")
    listed = str(raised.value).rpartition("official name: ")[2].split(", ")
    assert listed == retrofit.official_names()
    versions = [version.value for version in ModelVersion]
    assert set(versions) <= set(listed)
    assert sum(name.endswith((".ckpt", ".safetensors")) for name in listed) >= len(versions)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", ["no/such-v3.ckpt", "~/no-such-v3.safetensors", "V3", ""])
def test_a_wrong_path_is_named_and_nothing_is_made(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(errors.HostNotFoundError, match="mini"):
        retrofit.load_host(name)
    assert not list(tmp_path.iterdir())


def test_a_folder_is_not_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(errors.HostNotFoundError, match="a folder"):
        retrofit.load_host(tmp_path)


def test_unicode_and_spaces_in_a_path(mini_host: Host, tmp_path: Path) -> None:
    path = tmp_path / "mein Modell é 模型-v3.safetensors"
    path.write_bytes(mini_host.path.read_bytes())
    assert retrofit.load_host(path).sha256 == mini_host.sha256


def test_tabpfns_pickled_format_loads(mini_host: Host, tmp_path: Path) -> None:
    state, metadata = stock_parts(mini_host)
    fields = {key: json.loads(value) for key, value in metadata.items()}
    path = tmp_path / "copy-v3.ckpt"
    torch.save({"state_dict": state, **fields}, path)
    loaded = retrofit.load_host(path)
    x, y = torch.randn(9, 1, 3), torch.randn(6)
    assert torch.equal(loaded.model(x, y), mini_host.model(x, y))


class _Payload:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("pwned"),))


@pytest.mark.parametrize("legacy", [True, False])
def test_no_code_runs_from_a_foreign_pickle(
    legacy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "foreign-v3.ckpt"
    if legacy:
        path.write_bytes(pickle.dumps({"state_dict": _Payload()}))
    else:
        torch.save({"state_dict": {}, "config": _Payload()}, path)
    with pytest.raises(errors.CheckpointError, match="without running code"):
        retrofit.load_host(path)
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    "raw", [b"", b"not a checkpoint", b"\x00" * 64, b"\xff" * 64], ids=["empty", "text", "0", "ff"]
)
@pytest.mark.parametrize("suffix", [".safetensors", ".ckpt"])
def test_garbage_is_named(raw: bytes, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"garbage-v3{suffix}"
    path.write_bytes(raw)
    with pytest.raises(errors.CheckpointError, match="garbage-v3"):
        retrofit.load_host(path)
    with pytest.raises(errors.CheckpointError, match="garbage-v3"):
        retrofit.describe_host(path)


def test_a_pickle_older_than_the_zip_format_loads(mini_host: Host, tmp_path: Path) -> None:
    state, metadata = stock_parts(mini_host)
    fields = {key: json.loads(value) for key, value in metadata.items()}
    path = tmp_path / "old-v3.ckpt"
    torch.save({"state_dict": state, **fields}, path, _use_new_zipfile_serialization=False)
    x, y = torch.randn(9, 1, 3), torch.randn(6)
    assert torch.equal(retrofit.load_host(path).model(x, y), mini_host.model(x, y))


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "HF_ENDPOINT"])
def test_behind_a_proxy_the_download_itself_is_tried(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "get_cache_dir", lambda: tmp_path / "cache")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.setattr(load_module, "_server_answers", lambda: False)
    monkeypatch.setattr(load_module, "download_model", lambda *_, **__: [OSError("tried")])
    with pytest.raises(errors.HostNotFoundError, match="tried"):
        retrofit.load_host("v3")


def _without(field: str) -> object:
    return lambda state, metadata: metadata.pop(field)


def _other_architecture(state: dict, metadata: dict[str, str]) -> None:
    metadata["architecture_name"] = '"tabpfn_v9"'


def _prefixed(state: dict[str, torch.Tensor], metadata: dict) -> None:
    for name in list(state):
        state[f"module.{name}"] = state.pop(name)


def _reshaped(state: dict[str, torch.Tensor], metadata: dict) -> None:
    state["x_embed.weight"] = state["x_embed.weight"][:-1].clone()


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (_without("architecture_name"), errors.CheckpointError, "v2 model"),
        (_without("inference_config"), errors.CheckpointError, "inference_config"),
        (_without("config"), errors.CheckpointError, "config"),
        (_other_architecture, errors.UnsupportedHostError, "tabpfn_v9"),
        (_prefixed, errors.CheckpointError, "module"),
        (_reshaped, errors.CheckpointError, "do not fit"),
    ],
    ids=["no architecture", "no inference config", "no config", "v9", "prefixed", "reshaped"],
)
def test_checkpoints_that_tabpfn_would_guess_about(
    spoil: object, error: type[Exception], message: str, mini_host: Host, tmp_path: Path
) -> None:
    state, metadata = stock_parts(mini_host)
    spoil(state, metadata)
    path = tmp_path / "odd-v3.safetensors"
    save_file(state, path, metadata=metadata)
    with pytest.raises(error, match=message):
        retrofit.load_host(path)


def test_a_description_matches_the_loaded_host(mini_host: Host) -> None:
    description = retrofit.describe_host("mini")
    assert description.sha256 == mini_host.sha256
    named, loaded = (retrofit.plan(h, "full") for h in ("mini", mini_host))
    assert named.sites == loaded.sites
    assert not loaded.problems


def test_a_stock_host_predicts_the_bits_of_plain_tabpfn(
    mini_host: Host, table: tuple[np.ndarray, ...]
) -> None:
    X, y, X_test = table
    settings = {"n_estimators": 4, "device": "cpu", "inference_precision": torch.float32}
    plain = TabPFNRegressor(model_path=mini_host.path, **settings).fit(X, y).predict(X_test)
    assert np.array_equal(mini_host.regressor(**settings).fit(X, y).predict(X_test), plain)


def test_an_official_host_comes_through_tabpfns_own_download(
    mini_host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The download is played by a stand-in that writes tabpfn's pickled format."""
    asked = []

    def play(to: Path, **request: object) -> str:
        asked.append((to, request))
        to.parent.mkdir(parents=True)
        state, metadata = stock_parts(mini_host)
        fields = {key: json.loads(value) for key, value in metadata.items()}
        torch.save({"state_dict": state, **fields}, to)
        return "ok"

    monkeypatch.setattr(load_module, "get_cache_dir", lambda: tmp_path / "cache")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(load_module, "download_model", play)
    monkeypatch.setattr(load_module, "_server_answers", lambda: True)
    first = retrofit.load_host("v3")
    again = retrofit.load_host("tabpfn-v3-regressor-v3_default.ckpt")
    assert first.sha256 == again.sha256
    name = "tabpfn-v3-regressor-v3_default.ckpt"
    expected = {"version": ModelVersion.V3, "which": "regressor", "model_name": name}
    assert asked == [(tmp_path / "cache" / name, expected)]


def test_a_refused_download_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "get_cache_dir", lambda: tmp_path / "cache")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(load_module, "_server_answers", lambda: True)
    refusal = RuntimeError("licence not accepted")
    monkeypatch.setattr(load_module, "download_model", lambda *_, **__: [refusal])
    with pytest.raises(errors.HostNotFoundError, match=r"licence not accepted"):
        retrofit.load_host("v3")
