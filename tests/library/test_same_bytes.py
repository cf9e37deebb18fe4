"""A host's hash and its weights are of the same bytes, whatever tabpfn remembers of the file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import torch
from tabpfn import TabPFNRegressor

import retrofit
from retrofit import CalibrationTable, Host, errors

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

Table = tuple["np.ndarray", ...]


def replaced_in_place(path: Path, raw: bytes) -> None:
    """Other content of the same size under the same time stamp."""
    before = path.stat()
    assert len(raw) == before.st_size
    path.write_bytes(raw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture(params=["0", "4"], ids=["no cache", "cache"])
def built_models_kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABPFN_MODEL_CACHE_SIZE", request.param)


@pytest.fixture
def file(mini_host: Host, tmp_path: Path) -> Path:
    path = tmp_path / "mine-v3.safetensors"
    path.write_bytes(mini_host.path.read_bytes())
    return path


@pytest.mark.usefixtures("built_models_kept")
def test_a_file_replaced_in_place_is_read_anew(file: Path, table: Table, tmp_path: Path) -> None:
    settings = {"n_estimators": 1, "device": "cpu"}
    TabPFNRegressor(model_path=file, **settings).fit(*table[:2])
    first = retrofit.load_host(file)
    raw = bytearray(file.read_bytes())
    raw[-4:] = torch.tensor([7.5]).numpy().tobytes()
    replaced_in_place(file, bytes(raw))
    second = retrofit.load_host(file)
    other = tmp_path / "other-v3.safetensors"
    other.write_bytes(raw)
    fresh = retrofit.load_host(other)
    assert second.sha256 == fresh.sha256 != first.sha256
    changed = [
        name
        for name, tensor in first.model.state_dict().items()
        if not torch.equal(tensor, second.model.state_dict()[name])
    ]
    assert len(changed) == 1
    for name, tensor in fresh.model.state_dict().items():
        assert torch.equal(tensor, second.model.state_dict()[name])


def test_a_patched_file_replaced_by_a_damaged_one_is_refused(
    mini_host: Host, calibration: list[CalibrationTable], tmp_path: Path
) -> None:
    path = tmp_path / "mini-v3-oa.safetensors"
    retrofit.patch(mini_host, "oa", tau=1.0, tables=calibration).save(path)
    retrofit.load_host(path)
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    replaced_in_place(path, bytes(raw))
    with pytest.raises(errors.CheckpointError, match="weights differ"):
        retrofit.load_host(path)


@pytest.mark.usefixtures("built_models_kept")
def test_hosts_of_one_file_share_nothing(file: Path) -> None:
    one, other = retrofit.load_host(file), retrofit.load_host(file)
    state = {name: tensor.clone() for name, tensor in other.model.state_dict().items()}
    one.model.bfloat16()
    one.criterion.bfloat16()
    one.inference_config.SOFTMAX_TEMPERATURE += 1.0
    one.architecture_config.nlayers += 1
    assert other.inference_config.SOFTMAX_TEMPERATURE != one.inference_config.SOFTMAX_TEMPERATURE
    assert other.architecture_config.nlayers != one.architecture_config.nlayers
    assert other.criterion.borders.dtype == torch.float32
    for name, tensor in other.model.state_dict().items():
        assert tensor.dtype == state[name].dtype, name
        assert torch.equal(tensor, state[name]), name


def test_loading_draws_no_random_numbers(file: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    retrofit.load_host(file)
    assert torch.equal(torch.rand(2), expected)
