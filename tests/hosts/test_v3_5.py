"""What v3.5 has and no other generation: both heads in one model, true bfloat16, read settings."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from drawn_hosts import TINY, host_of, redrawn
from tabpfn.architectures import tabpfn_v3_5

import retrofit
from retrofit import CalibrationTable, Host
from retrofit.errors import UnsupportedModeError
from retrofit.hosts.clone import alias

if TYPE_CHECKING:
    from pathlib import Path

# In a process in which nothing of oretro has run yet.
SCRIPT = """
import sys
import numpy as np
{first}
from tabpfn import {estimator}
rng = np.random.default_rng(0)
X = rng.normal(size=(50, 4))
y = X[:, 0] + 0.1 * rng.normal(size=50)
y = y if "Regressor" in "{estimator}" else y > 0
predicted = {estimator}(model_path=sys.argv[1], device="cpu").fit(X[:40], y[:40]).predict(X[40:])
print("finite", np.isfinite(predicted).all())
"""


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"icl_num_kv_heads": 2, "feat_agg_rope_base": 5000},
        {"decoder_use_softmax_scaling": False, "cell_embed_row_chunk_size": None},
        {"cell_ecdf_num_buckets": 7, "inference_chunk_cells": 64, "max_batched_estimator_rows": 9},
    ],
    ids=str,
)
def test_the_configuration_is_read_from_the_model(settings: dict[str, object]) -> None:
    """The models do not carry it, and the caller's goes on without."""
    model = redrawn("tabpfn_v3_5", **{**TINY, **settings})
    expected, _ = tabpfn_v3_5.parse_config({**TINY, "max_num_classes": 3, **settings})
    assert host_of(model).architecture_config == expected
    assert not hasattr(model, "config")


def test_parts_of_classification_are_left_with_the_reason(tiny_v3_5: Host) -> None:
    plan = retrofit.plan(tiny_v3_5, "closed")
    left = {name for name, reason in plan.skipped.items() if "classification" in reason}
    assert left == {
        "heads.mlp_classification",
        "heads.mlp_classification.mlp",
        "heads.mlp_classification.norm",
        "heads.many_class_decoder.softmax_scaling_layer",
    }
    assert not left & {site.name for site in plan.sites}


@pytest.mark.parametrize("variant", ["oa", "full", "closed"])
@pytest.mark.parametrize("task_type", [None, "multiclass"])
def test_classification_is_refused(
    task_type: str | None, variant: str, tiny_v3_5: Host, calibration: list[CalibrationTable]
) -> None:
    model = retrofit.patch(tiny_v3_5, variant, tau=1.0, tables=calibration).model
    x_RBC, y_N = torch.randn(8, 1, 3), torch.arange(6.0) % 2
    assert tiny_v3_5.model(x_RBC, y_N, "multiclass").shape == (2, 1, 3)
    assert model(x_RBC, y_N, "regression").shape == (2, 1, 100)
    with pytest.raises(UnsupportedModeError, match="classify with the stock checkpoint"):
        model(x_RBC, y_N, task_type)


@pytest.mark.parametrize(
    ("first", "estimator", "says"),
    [
        ("import retrofit", "TabPFNRegressor", "finite True"),
        ("import retrofit", "TabPFNClassifier", "classify with the stock checkpoint"),
        ("", "TabPFNRegressor", "oretro_tabpfn_v3_5"),
    ],
)
def test_a_patched_file_in_plain_tabpfn(
    first: str,
    estimator: str,
    says: str,
    tiny_v3_5: Host,
    calibration: list[CalibrationTable],
    tmp_path: Path,
) -> None:
    patched = retrofit.patch(tiny_v3_5, "full", tau=1e-6, tables=calibration)
    path = patched.save(tmp_path / "tiny-v3.5-full.safetensors")
    script = SCRIPT.format(first=first, estimator=estimator)
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert says in (done.stdout if says.startswith("finite") else done.stderr)


def test_rows_in_true_bfloat16(tiny_v3_5: Host, calibration: list[CalibrationTable]) -> None:
    """8 bits: stock is off too, and a wired host no more than twice as far."""
    generator = torch.Generator().manual_seed(0)
    x_RBC = torch.randn(30, 2, 5, generator=generator)
    y_NB = torch.randn(20, 2, generator=generator)
    wired = retrofit.patch(tiny_v3_5, "full", presence="one", eps_den=0.0, tables=calibration)
    gated = retrofit.patch(tiny_v3_5, "full", tau=1e3, tables=calibration)
    run = tiny_v3_5.generation.run
    errors = []
    with torch.inference_mode():
        exact = run(tiny_v3_5.model, x_RBC, y_NB)
        for host in (tiny_v3_5, wired, gated):
            model = alias(host.model)
            model.enable_icl_bf16()
            errors.append(float((run(model, x_RBC, y_NB) - exact).abs().max()))
    assert errors[0] > 1e-3, "bfloat16 did nothing"
    assert errors[1] <= 2 * errors[0] < errors[2]


def test_ranks_are_those_among_present_rows(
    tiny_v3_5: Host, calibration: list[CalibrationTable]
) -> None:
    """Tables of a batch may have fewer present rows than it has, and so fewer edges."""
    model = retrofit.patch(tiny_v3_5, "closed", tau=1.0, tables=calibration).model
    rng = np.random.default_rng(0)
    x_RBC = torch.from_numpy(rng.integers(0, 6, size=(12, 2, 3)).astype(np.float32))
    present_BN = torch.tensor([[True] * 9, [True, False, True] * 3])
    statistics = {"mean": torch.zeros(2, 3), "std": torch.ones(2, 3)}
    present_NBC = present_BN.T[..., None].expand(-1, -1, 3)
    completed = model._completed(statistics, x_RBC[:9], present_NBC)
    ranks_BRC = model._standardised(x_RBC, completed)[2]
    for element, present in enumerate(present_BN):
        own = x_RBC[:9, element][present]
        below = (own < x_RBC[:, element, None]).sum(1)
        at_most = (own <= x_RBC[:, element, None]).sum(1)
        inside = at_most > below
        expected = 0.5 * (below + at_most) / len(own)
        assert torch.allclose(ranks_BRC[element][inside], expected[inside])
    everywhere = model._completed(statistics, x_RBC[:9], torch.ones_like(present_NBC))
    assert not torch.allclose(model._standardised(x_RBC, everywhere)[2], ranks_BRC)
