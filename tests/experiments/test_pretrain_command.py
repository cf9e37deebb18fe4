"""``oretro pretrain`` as a user runs it: learning, SIGKILL, export, refusals."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from experiments.pretrain.checkpoint import FILE_NAME, load_checkpoint
from experiments.pretrain.export import average_weights
from experiments.pretrain.journal import CURVE, LOG

CONFIG = Path(__file__).parents[2] / "configs" / "mini_host_ci.yaml"
ROOT = CONFIG.parents[1]
# A constant prediction of the standardised target costs about 1.42 nats.
MOST_FINAL_NLL = 1.25
LEAST_GAIN = 1.0


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "experiments.cli", "pretrain", *map(str, arguments)]


def oretro(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    done = oretro(CONFIG, "--out", folder, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"] is True
    return folder


@pytest.mark.slow
def test_a_short_run_learns(finished: Path):
    with (finished / CURVE).open() as handle:
        curve = {int(row["step"]): float(row["val_nll"]) for row in csv.DictReader(handle)}
    assert curve[200] < MOST_FINAL_NLL
    assert curve[0] - curve[200] > LEAST_GAIN


@pytest.mark.slow
def test_a_killed_run_resumes_and_ends_with_the_same_weights(finished: Path, tmp_path: Path):
    run = subprocess.Popen(
        command(CONFIG, "--out", tmp_path, "--quiet"),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 200
    path = tmp_path / FILE_NAME
    while not path.exists() and time.monotonic() < deadline:
        assert run.poll() is None, "the run ended before its first checkpoint"
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    kept = load_checkpoint(path)
    assert kept.step > 0
    assert not kept.finished
    resumed = oretro(CONFIG, "--out", tmp_path, "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert f"resumed mini-host-ci at step {kept.step}" in (tmp_path / LOG).read_text()
    whole, parts = load_checkpoint(finished / FILE_NAME), load_checkpoint(path)
    assert whole.step == parts.step
    assert whole.tasks == parts.tasks
    for name, value in average_weights(whole).items():
        assert torch.equal(value, average_weights(parts)[name]), name
    name = "output_projection.2.weight"
    assert not torch.equal(average_weights(kept)[name], average_weights(whole)[name])


@pytest.mark.slow
def test_exports_load_in_stock_tabpfn(finished: Path, tmp_path: Path):
    from tabpfn import TabPFNRegressor

    target, small = tmp_path / "tiny-v3.safetensors", tmp_path / "half-v3.safetensors"
    done = oretro(CONFIG, "--out", finished, "--export", target, "--quiet")
    assert done.returncode == 0, done.stderr
    card = target.with_suffix(".md").read_text()
    assert "not Prior Labs' model" in card
    assert "Apache-2.0" in card
    assert oretro(CONFIG, "--out", finished, "--export", small, "--half", "-q").returncode == 0
    assert small.stat().st_size < 0.7 * target.stat().st_size
    with safe_open(small, "pt") as file:
        dtypes = {name: file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118
    assert dtypes.pop("regression_borders") == torch.float32
    assert set(dtypes.values()) == {torch.float16}

    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 3))
    y = x @ [2.0, -1.0, 0.5]
    predictions = {}
    for path in (target, small):
        regressor = TabPFNRegressor(
            model_path=str(path), n_estimators=1, device="cpu", inference_precision=torch.float32
        )
        predictions[path] = regressor.fit(x[:70], y[:70]).predict(x[70:])
    loaded = regressor.models_[0] if hasattr(regressor, "models_") else regressor.model_
    assert type(loaded).__name__ == "TabPFNV3"
    spread = np.std(y[70:])
    assert np.sqrt(np.mean((predictions[target] - y[70:]) ** 2)) < 0.9 * spread
    # float16 weights carry a relative rounding of 5e-4.
    assert np.abs(predictions[target] - predictions[small]).max() < 0.02 * spread
    assert not np.array_equal(predictions[target], predictions[small])


def test_dry_run_trains_nothing(tmp_path: Path):
    done = oretro(CONFIG, "--out", tmp_path / "run", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["holds"] == "a new run"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--half"], "--export"),
        (["--export", "a-v3.safetensors", "--unfinished"], "no checkpoint"),
        (["--replay", "absent.csv", "--dry-run"], "budget.pace"),
    ],
)
def test_misuse_ends_with_one_sentence_and_status_two(
    tmp_path: Path, arguments: list[str], reason: str
):
    done = oretro(CONFIG, "--out", tmp_path / "run", *arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
