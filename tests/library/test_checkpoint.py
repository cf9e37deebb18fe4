"""Patched files: read back bit for bit by oretro and by tabpfn itself, refused when damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tabpfn import TabPFNRegressor
from tabpfn.model_loading import save_tabpfn_model

import retrofit
from retrofit import CalibrationTable, Host, Patched, errors
from retrofit.files.checkpoint import write_patched
from retrofit.hosts.clone import tensors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Table = tuple[np.ndarray, ...]
SETTINGS = {
    "n_estimators": 2,
    "random_state": 0,
    "device": "cpu",
    "inference_precision": torch.float32,
}


@pytest.fixture(scope="module")
def patched(mini_host: Host, calibration: list[CalibrationTable]) -> Patched:
    return retrofit.patch(mini_host, "full", tau=0.5, tables=calibration)


@pytest.fixture(scope="module")
def file(patched: Patched, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return patched.save(tmp_path_factory.mktemp("saved") / "mini-v3-full.safetensors")


def content(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    with safe_open(path, framework="pt") as opened:
        return load_file(path), opened.metadata()


def test_oretro_reads_it_back(file: Path, patched: Patched, table: Table) -> None:
    loaded = retrofit.load_host(file)
    assert isinstance(loaded, Patched)
    live = patched.regressor(**SETTINGS).fit(*table[:2]).predict(table[2])
    read = loaded.regressor(**SETTINGS).fit(*table[:2]).predict(table[2])
    assert np.array_equal(read, live)
    assert loaded.config.tau == patched.config.tau
    assert loaded.report.streams == patched.report.streams
    assert loaded.sha256 == patched.sha256
    stock = loaded.restore().regressor(**SETTINGS).fit(*table[:2]).predict(table[2])
    assert not np.array_equal(stock, live)


def test_plain_tabpfn_reads_it(file: Path, patched: Patched, table: Table) -> None:
    live = patched.regressor(**SETTINGS).fit(*table[:2]).predict(table[2])
    plain = TabPFNRegressor(model_path=file, **SETTINGS).fit(*table[:2])
    assert np.array_equal(plain.predict(table[2]), live)
    assert plain.inference_config_ == patched.inference_config


@pytest.mark.parametrize("imported", ["tabpfn", "tabpfn, retrofit"])
def test_without_the_import_it_never_loads(file: Path, imported: str) -> None:
    code = f"""
import {imported}
X, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]
tabpfn.TabPFNRegressor(model_path={str(file)!r}, device="cpu").fit(X, y)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if "retrofit" in imported:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0
        assert "oretro_tabpfn_v3: import retrofit before" in done.stderr


def test_tabpfns_own_saver_cannot_make_it_stock(
    patched: Patched, table: Table, tmp_path: Path
) -> None:
    """tabpfn names the architecture of any v3 'tabpfn_v3'; the marker makes that load fail."""
    fitted = patched.regressor(**SETTINGS).fit(*table[:2])
    path = tmp_path / "resaved-v3.ckpt"
    save_tabpfn_model(fitted, path)
    with pytest.raises(RuntimeError, match="oretro_format_version"):
        TabPFNRegressor(model_path=path, **SETTINGS).fit(*table[:2])
    with pytest.raises(errors.CheckpointError):
        retrofit.load_host(path)


def test_it_differs_from_its_source_only_where_it_says_so(file: Path, mini_host: Host) -> None:
    source, source_fields = content(mini_host.path)
    saved, saved_fields = content(file)
    assert set(saved) - set(source) == {"oretro_format_version"}
    for name, tensor in source.items():
        assert saved[name].dtype == tensor.dtype, name
        assert torch.equal(saved[name], tensor), name
    before, after = (json.loads(f["config"]) for f in (source_fields, saved_fields))
    assert after.pop("oretro")["host_sha256"] == mini_host.sha256
    assert {key: after[key] for key in before} == before
    before, after = (json.loads(f["inference_config"]) for f in (source_fields, saved_fields))
    assert {key: after[key] for key in before} == before


def test_half_precision_sources_keep_their_dtype(
    mini_host: Host, tmp_path: Path, calibration: list[CalibrationTable], table: Table
) -> None:
    source, fields = content(mini_host.path)
    half = {name: tensor.half() if tensor.ndim == 2 else tensor for name, tensor in source.items()}
    path = tmp_path / "half-v3.safetensors"
    save_file(half, path, metadata=fields)
    patched = retrofit.patch(retrofit.load_host(path), "oa", tau=1.0, tables=calibration)
    saved_path = patched.save(tmp_path / "half-v3-oa.safetensors")
    saved, _ = content(saved_path)
    assert {name: saved[name].dtype for name in half} == {n: t.dtype for n, t in half.items()}
    assert all(torch.equal(saved[name], tensor) for name, tensor in half.items())
    live = patched.regressor(**SETTINGS).fit(*table[:2]).predict(table[2])
    read = retrofit.load_host(saved_path).regressor(**SETTINGS).fit(*table[:2]).predict(table[2])
    assert np.array_equal(live, read)


def test_running_in_low_precision_does_not_reach_the_file(
    patched: Patched, file: Path, table: Table, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "inference_precision": torch.bfloat16}
    patched.regressor(**settings).fit(*table[:2]).predict(table[2])
    again, _ = content(patched.save(tmp_path / "again-v3.safetensors"))
    assert all(torch.equal(again[name], tensor) for name, tensor in content(file)[0].items())


def test_a_cast_model_is_not_saved(
    mini_host: Host, calibration: list[CalibrationTable], tmp_path: Path
) -> None:
    patched = retrofit.patch(mini_host, "oa", tau=1.0, tables=calibration)
    patched.model.half()
    with pytest.raises(errors.CheckpointError, match="before casting"):
        patched.save(tmp_path / "cast-v3.safetensors")
    assert not list(tmp_path.iterdir())


def _offsets(path: Path) -> dict[str, int]:
    """Places to damage: a weight, the borders, a tau, the inference settings, the digest."""
    raw = path.read_bytes()
    header_size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + header_size])
    start = 8 + header_size
    return {
        "weight": start + header["icl_blocks.0.mlp.0.weight"]["data_offsets"][0] + 2,
        "norm": start + header["output_norm.weight"]["data_offsets"][0] + 2,
        "borders": start + header["regression_borders"]["data_offsets"][1] - 2,
        "last byte": len(raw) - 1,
        "tau": raw.index(b"0.5", raw.index(b"carrier")) + 2,
        "inference settings": raw.index(b"SOFTMAX_TEMPERATURE") + len("SOFTMAX_TEMPERATURE") + 6,
        "digest": raw.index(b"oretro_seal") + 40,
    }


@pytest.mark.parametrize(
    "place", ["weight", "norm", "borders", "last byte", "tau", "inference settings", "digest"]
)
def test_one_flipped_bit_is_noticed(place: str, file: Path, tmp_path: Path) -> None:
    raw = bytearray(file.read_bytes())
    raw[_offsets(file)[place]] ^= 1
    path = tmp_path / "damaged-v3.safetensors"
    path.write_bytes(raw)
    with pytest.raises(errors.CheckpointError):
        retrofit.load_host(path)


def test_plain_tabpfn_notices_a_damaged_weight(file: Path, table: Table, tmp_path: Path) -> None:
    raw = bytearray(file.read_bytes())
    raw[_offsets(file)["weight"]] ^= 1
    path = tmp_path / "damaged-v3.safetensors"
    path.write_bytes(raw)
    with pytest.raises(errors.CheckpointError, match="sha256"):
        TabPFNRegressor(model_path=path, **SETTINGS).fit(*table[:2])


def test_it_holds_no_pickle(file: Path) -> None:
    raw = file.read_bytes()
    assert b"\x80\x02" not in raw[: 8 + int.from_bytes(raw[:8], "little")]
    assert not raw.startswith(b"PK")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("patched-v3.ckpt", "safetensors file"),
        ("missing/patched-v3.safetensors", "does not exist"),
    ],
)
def test_places_it_cannot_go(patched: Patched, tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(errors.CheckpointError, match=message):
        patched.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_kept_unless_asked(patched: Patched, tmp_path: Path) -> None:
    path = tmp_path / "kept-v3.safetensors"
    path.write_text("mine")
    with pytest.raises(errors.CheckpointError, match="exists"):
        patched.save(path)
    assert path.read_text() == "mine"
    patched.save(path, overwrite=True)
    assert isinstance(retrofit.load_host(path), Patched)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_name_that_tabpfn_would_misread_warns(patched: Patched, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="file name"):
        patched.save(tmp_path / "patched.safetensors")


def test_weights_are_shared_until_they_are_cast(mini_host: Host, patched: Patched) -> None:
    stock, gated = tensors(mini_host.model), tensors(patched.model)
    assert all(gated[name].data_ptr() == tensor.data_ptr() for name, tensor in stock.items())


def test_the_file_has_the_permissions_that_the_umask_asks_for(
    patched: Patched, tmp_path: Path
) -> None:
    before = os.umask(0o027)
    try:
        path = patched.save(tmp_path / "shared-v3.safetensors")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def resaved(file: Path, path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A patched file whose JSON fields were changed and whose digest was made to fit again."""
    state, metadata = content(file)
    fields = {key: json.loads(value) for key, value in metadata.items()}
    change(fields)
    write_patched(path, state, fields)
    return path


def test_a_file_of_a_later_format_is_refused(file: Path, tmp_path: Path) -> None:
    def later(fields: dict[str, Any]) -> None:
        fields["config"]["oretro"]["format_version"] = 3

    with pytest.raises(errors.CheckpointError, match="format version 3"):
        retrofit.load_host(resaved(file, tmp_path / "later-v3.safetensors", later))


def test_a_foreign_report_is_refused(file: Path, tmp_path: Path) -> None:
    def foreign(fields: dict[str, Any]) -> None:
        fields["oretro_report"]["surprise"] = 1

    with pytest.raises(errors.CheckpointError, match="surprise"):
        retrofit.load_host(resaved(file, tmp_path / "foreign-v3.safetensors", foreign))
