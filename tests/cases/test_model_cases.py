"""Hard inputs of models: odd arrays, odd numbers, odd precisions, ties and stray settings."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from packaging.version import Version
from safetensors.torch import load_file, save_file
from torch import nn

import retrofit
from experiments.data import make_table
from experiments.errors import DataError
from experiments.sweep.folder.keys import ResultKey, differences
from retrofit import Host, Patched
from retrofit.errors import RetrofitError

SETTINGS = {"n_estimators": 1, "random_state": 0, "device": "cpu"}
FLOAT32 = {**SETTINGS, "inference_precision": torch.float32}


@pytest.fixture(scope="module")
def patched(tiny_host, calibration) -> Patched:
    return retrofit.patch(tiny_host, "full", tau=0.05, tables=calibration)


def test_empty_column_changes_no_prediction(patched, table) -> None:
    X, y, X_test = (part.copy() for part in table)
    for subject in (patched.restore(), patched):
        plain = subject.regressor(**FLOAT32).fit(X, y).predict(X_test)
        wide = [np.insert(part, 2, np.nan, axis=1) for part in (X, X_test)]
        assert np.array_equal(subject.regressor(**FLOAT32).fit(wide[0], y).predict(wide[1]), plain)
        wide[0][:, 2], wide[1][:, 2] = np.arange(40), np.arange(9)
        filled = subject.regressor(**FLOAT32).fit(wide[0], y).predict(wide[1])
        assert not np.array_equal(filled, plain)


LAYOUTS: dict[str, Callable[[np.ndarray], object]] = {
    "fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
    "negative stride": lambda x: x[::-1].copy()[::-1],
    "longdouble": lambda x: x.astype(np.longdouble),
    "read-only": lambda x: np.frombuffer(x.tobytes()).reshape(x.shape),
    "recarray": lambda x: pd.DataFrame(x, columns=list("abcde")).to_records(index=False),
    "torch": lambda x: torch.tensor(x).numpy(),
}
if Version(pd.__version__) >= Version("3"):  # pandas 2 cannot select rows of such a table
    LAYOUTS["big-endian"] = lambda x: x.astype(">f8")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_layout_does_not_change_a_table(table, layout: str) -> None:
    X, y, _ = table

    def made(values: object) -> str:
        frame = pd.DataFrame(values)
        frame.columns = list("abcde")
        frame = frame.assign(y=y)
        return make_table(frame, name="t", target="y", licence="", source="").sha256

    assert made(LAYOUTS[layout](X)) == made(np.ascontiguousarray(X))
    # float32 is another table: hashes of values enter the host's features.
    assert made(X.astype(np.float32)) != made(X)


@pytest.mark.parametrize("value", [3.5e38, 1e200, -1.7e308])
def test_feature_beyond_float32_is_refused_by_name(value: float) -> None:
    frame = pd.DataFrame({"x": [0.0, value], "y": [0.0, 1.0]})
    with pytest.raises(DataError, match=r"column 'x': row 1 holds .* float32 cannot"):
        make_table(frame, name="t", target="y", licence="", source="")
    make_table(frame.assign(x=[0.0, 3.4e38]), name="t", target="y", licence="", source="")


FORCED = [torch.float64, torch.bfloat16, torch.float16, "autocast", "auto"]


@pytest.mark.parametrize("precision", FORCED, ids=str)
def test_patched_model_follows_every_precision(patched, table, precision) -> None:
    X, y, X_test = table
    settings = {**SETTINGS, "inference_precision": precision}
    stock = patched.restore().regressor(**settings).fit(X, y).predict(X_test)
    found = patched.regressor(**settings).fit(X, y).predict(X_test)
    assert np.isfinite(found).all()
    assert found.dtype == stock.dtype
    exact = patched.regressor(**FLOAT32).fit(X, y).predict(X_test)
    # Half precision keeps 8 bits; predictions are of the size of the target's deviation.
    assert np.abs(found - exact).max() <= 0.1 * np.std(y)
    assert not np.array_equal(found, stock)


def test_constant_target_does_not_reach_the_saved_file(patched, table, tmp_path) -> None:
    X, y, _ = table
    before = load_file(patched.save(tmp_path / "before-v3.safetensors"))
    patched.regressor(**FLOAT32).fit(X, np.full_like(y, 5.0)).predict(X)
    after = load_file(patched.save(tmp_path / "after-v3.safetensors"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    loaded = retrofit.load_host(tmp_path / "after-v3.safetensors")
    expected = patched.regressor(**FLOAT32).fit(X, y).predict(X)
    assert np.array_equal(loaded.regressor(**FLOAT32).fit(X, y).predict(X), expected)


def test_run_leaves_no_activation_on_a_module(patched, table) -> None:
    X, y, X_test = table
    regressor = patched.regressor(**FLOAT32).fit(X, y)
    regressor.predict(X_test)
    for name, module in regressor.models_[0].named_modules():
        registered = {*module._parameters, *module._buffers}
        kept = [
            key
            for key, value in vars(module).items()
            if isinstance(value, torch.Tensor) and key not in registered
        ]
        assert not kept, (name, kept)
    twin = copy.deepcopy(regressor)
    assert np.array_equal(twin.predict(X_test), regressor.predict(X_test))


def test_new_modules_are_frozen_and_out_of_training(patched) -> None:
    model = patched.regressor().model_path.model
    assert not any(module.training for module in model.modules())
    assert not [name for name, weight in model.named_parameters() if weight.requires_grad]


def test_tied_weights_come_back_whole(build_host, calibration, table, tmp_path) -> None:
    host: Host = build_host()
    blocks = host.model.icl_blocks
    blocks[1].mlp[0].weight = blocks[0].mlp[0].weight
    patched = retrofit.patch(host, "oa", tau=0.05, tables=calibration)
    path = patched.save(tmp_path / "tied-v3.safetensors")
    X, y, X_test = table
    live = patched.regressor(**FLOAT32).fit(X, y).predict(X_test)
    read = retrofit.load_host(path).regressor(**FLOAT32).fit(X, y).predict(X_test)
    assert np.array_equal(read, live)


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "base_model.model."])
def test_prefixed_weights_are_refused_with_a_sentence(mini_host, tmp_path, prefix: str) -> None:
    from safetensors import safe_open

    with safe_open(mini_host.path, framework="pt") as opened:
        metadata = dict(opened.metadata())
    wrapped = {prefix + name: value for name, value in load_file(mini_host.path).items()}
    path = tmp_path / "wrapped-v3.safetensors"
    save_file(wrapped, path, metadata)
    with pytest.raises(RetrofitError) as caught:
        retrofit.load_host(path)
    message = str(caught.value)
    assert "wrapped-v3.safetensors" in message
    assert len(message) < 600


@pytest.mark.parametrize("buckets", [5, 5000])
def test_borders_survive_patching_and_saving(build_host, calibration, tmp_path, buckets) -> None:
    host: Host = build_host(num_buckets=buckets)
    patched = retrofit.patch(host, "full", tau=0.05, tables=calibration)
    saved = load_file(patched.save(tmp_path / "b-v3.safetensors"))
    stock = host.model.state_dict()
    borders = [name for name in saved if "border" in name]
    assert borders
    assert all(torch.equal(saved[name], stock[name]) for name in borders)
    assert all(len(saved[name]) == buckets + 1 for name in borders)
    assert not [name for name in saved if name not in stock and "criterion." in name]


def test_name_with_a_dot_leaves_no_stray_module(patched) -> None:
    model = patched.model
    for name, module in model.named_modules():
        assert not [child for child in module._modules if "." in child], name
    stock = patched.restore().model
    assert [name for name, _ in model.named_children()] == [n for n, _ in stock.named_children()]


def test_rows_do_not_depend_on_the_batch_they_are_in() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 64, 2, 7, 8)
    p = torch.rand(64, 7)
    whole = retrofit.ops.oattention(q, k, v, p, p)
    for size in (1, 8):
        parts = [
            retrofit.ops.oattention(*(x[i : i + size] for x in (q, k, v, p, p)))
            for i in range(0, 64, size)
        ]
        # Seven products of size about one, each rounded by 2^-24.
        assert (torch.cat(parts) - whole).abs().max() <= 1e-5
    assert (whole[1:] - whole[:-1]).abs().max() > 1e-3


def test_long_context_in_pieces_of_receivers_agrees() -> None:
    torch.manual_seed(1)
    q, k, v = torch.randn(3, 1, 2, 5000, 8)
    p = torch.rand(1, 5000)
    receivers = slice(0, 96)
    whole = retrofit.ops.oattention(q[:, :, receivers], k, v, p[:, receivers], p)
    parts = [
        retrofit.ops.oattention(q[:, :, i : i + 32], k, v, p[:, i : i + 32], p)
        for i in range(0, 96, 32)
    ]
    assert (torch.cat(parts, dim=2) - whole).abs().max() <= 1e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_norm_of_large_zero_and_constant_rows_is_finite(dtype) -> None:
    rows = torch.stack([torch.full((64,), 300.0), torch.zeros(64), torch.linspace(-300, 300, 64)])
    for norm in (nn.RMSNorm(64, eps=1e-6), nn.LayerNorm(64)):
        out = retrofit.ops.ONorm(norm.to(dtype), tau=1e-3)(rows.to(dtype))
        assert torch.isfinite(out).all()
        assert out.dtype == dtype
        assert not out[1].any()
        assert out[2].abs().max() > 1


@pytest.mark.parametrize("gate", ["numpy scalar", "integers", "double"])
def test_gate_of_another_type_is_refused_or_means_the_same(gate: str) -> None:
    torch.manual_seed(2)
    q, k, v = torch.randn(3, 1, 2, 5, 8)
    mask = (torch.rand(5, 5) < 0.6) | torch.eye(5, dtype=torch.bool)
    p = torch.ones(1, 5)
    expected = retrofit.ops.oattention(q, k, v, p, p, mask=mask)
    if gate == "double":
        found = retrofit.ops.oattention(q, k, v, p, p, mask=mask.double())
        assert (found - expected).abs().max() <= 1e-6
        assert found.dtype == torch.float32
        return
    wrong = mask.int() if gate == "integers" else np.float64(1.0)
    with pytest.raises((retrofit.ops.OperatorError, TypeError, AttributeError)):
        retrofit.ops.oattention(q, k, v, p, p, mask=wrong)


def test_heads_that_do_not_divide_are_refused() -> None:
    q, k, v = torch.randn(1, 4, 5, 8), torch.randn(1, 3, 5, 8), torch.randn(1, 3, 5, 8)
    p = torch.ones(1, 5)
    with pytest.raises(retrofit.ops.ShapeError, match="4 query heads are not a multiple of 3"):
        retrofit.ops.oattention(q, k, v, p, p)


def test_result_of_another_machine_is_another_result() -> None:
    fields = {
        "dataset": "d",
        "data_sha256": "1" * 64,
        "split_sha256": "2" * 64,
        "seed": 1,
        "variant": "oa",
        "settings": (),
        "host_sha256": "3" * 64,
        "n_estimators": 1,
        "dtype": "float32",
        "device": "cpu",
        "threads": 2,
        "cpu": "AVX2",
        "versions": (),
        "code_sha256": "4" * 64,
    }
    mine = ResultKey(**fields)
    for change in ({"cpu": "AVX512"}, {"threads": 1}, {"dtype": "bfloat16"}):
        other = ResultKey(**{**fields, **change})
        assert other.digest != mine.digest
        (line,) = differences(other, json.loads(json.dumps(fields)))
        assert line.startswith(f"{next(iter(change))}: ")


def python(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder, check=False)


def test_stray_env_file_is_named_and_cannot_change_the_model(mini_host, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TABPFN_MODEL_VERSION=v9\n")
    patch = "import sys; sys.argv[1:] = ['patch', 'mini', '--dry-run']"
    done = python(tmp_path, f"{patch}\nfrom experiments.cli import main\nmain()")
    assert done.returncode == 2
    assert ".env in the working directory" in done.stderr
    assert "Traceback" not in done.stderr
    (tmp_path / ".env").write_text("TABPFN_MODEL_VERSION=v2\n")
    done = python(tmp_path, "import retrofit; print(retrofit.describe_host('mini').sha256)")
    assert done.stdout.strip() == mini_host.sha256
