"""Patched files in processes of their own, at tabpfn's default settings."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import retrofit
from retrofit.words import VARIANTS

if TYPE_CHECKING:
    from pathlib import Path

    from retrofit import CalibrationTable, Host

# Each file in a child of its own, in which nothing of torch or oretro has run yet.
SCRIPT = """
import json, multiprocessing, sys
import numpy as np
import retrofit
import tabpfn.utils
from tabpfn import TabPFNRegressor

# As on a processor with bfloat16, which tabpfn then runs in by default.
tabpfn.utils._cpu_supports_fast_bf16 = lambda: True

def predicted(path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = X[:, 0] + 0.1 * rng.normal(size=90)
    fitted = TabPFNRegressor(model_path=path, device="cpu").fit(X[:80], y[:80])
    return float(np.corrcoef(fitted.predict(X[80:]), y[80:])[0, 1]), fitted.use_autocast_

with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
    print(json.dumps(pool.map(predicted, json.loads(sys.argv[1]), chunksize=1)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_plain_tabpfn_predicts_at_its_defaults(
    mini_host: Host, calibration: list[CalibrationTable], tmp_path: Path
) -> None:
    """The first attention of the process runs inside tabpfn's autocast."""
    paths = []
    for variant in VARIANTS:
        patched = retrofit.patch(mini_host, variant, tau=1e-6, tables=calibration)
        paths.append(str(patched.save(tmp_path / f"mini-v3-{variant}.safetensors")))
    command = [sys.executable, "-c", SCRIPT, json.dumps(paths)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for correlation, autocast in json.loads(done.stdout):
        assert autocast
        assert correlation > 0.9
