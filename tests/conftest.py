"""Hosts for the tests: the built-in one, and models whose zero-initialised weights are drawn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# Each worker has a core of its own; set before torch is imported, and inherited by subprocesses.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from tabpfn.architectures import ARCHITECTURES
from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution
from tabpfn.constants import ModelVersion
from tabpfn.inference_config import InferenceConfig

import retrofit
from experiments.machine.threads import pinned_threads
from retrofit import CalibrationTable, Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

TINY = {
    "embed_dim": 32,
    "dist_embed_num_blocks": 2,
    "dist_embed_num_heads": 4,
    "dist_embed_num_inducing_points": 8,
    "feat_agg_num_blocks": 2,
    "feat_agg_num_heads": 4,
    "feat_agg_num_cls_tokens": 2,
    "nlayers": 2,
    "icl_num_heads": 4,
    "num_buckets": 100,
}
_GRID = {"emsize": 32, "nlayers": 2, "nhead": 4, "num_buckets": 100, "max_num_classes": 0}
TINY_GRIDS: dict[str, dict[str, int]] = {
    "tabpfn_v2": {**_GRID, "features_per_group": 2},
    "tabpfn_v2_5": {**_GRID, "features_per_group": 3, "num_thinking_rows": 5},
    "tabpfn_v2_6": {**_GRID, "features_per_group": 3, "num_thinking_rows": 5},
}
# A classification head is part of every v3.5.
CLASSES = {"tabpfn_v3_5": 3}


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Small tensors are slower on many threads, and far slower on busy ones."""
    with pinned_threads(1):
        yield


def redrawn(architecture: str, seed: int = 0, **settings: object) -> nn.Module:
    """A regressor whose zero-initialised weights are drawn, so that no block is an identity."""
    torch.manual_seed(seed)
    module = ARCHITECTURES[architecture]
    classes = CLASSES.get(architecture, 0)
    config, unknown = module.parse_config(
        {"num_buckets": 5000, "max_num_classes": classes, **settings}
    )
    assert not unknown
    model = module.get_architecture(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                fan_in = parameter.shape[-1]
                parameter.copy_(torch.randn_like(parameter) * fan_in**-0.5)
    return model


def host_of(model: nn.Module, name: str = "redrawn") -> Host:
    inference_config = InferenceConfig.get_default("regression", ModelVersion.V2_5)
    criterion = None
    if not hasattr(model, "regression_borders"):
        borders = torch.linspace(-4.0, 4.0, model.n_out + 1)
        criterion = FullSupportBarDistribution(borders, ignore_nan_targets=True)
    return Host.from_model(model, inference_config, name=name, criterion=criterion)


def tiny_grid(architecture: str, **settings: object) -> Host:
    """A tiny redrawn host of v2, v2.5 or v2.6."""
    name = architecture.removeprefix("tabpfn_").replace("_", ".")
    return host_of(redrawn(architecture, **{**TINY_GRIDS[architecture], **settings}), name)


@pytest.fixture(scope="session")
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Train features (40, 5), train targets (40,), test features (9, 5)."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(49, 5))
    X[:, 3] = rng.integers(0, 4, size=49)
    X[3, 1] = np.nan
    y = X[:, 0] - np.nan_to_num(X[:, 1]) ** 2 + 0.1 * rng.normal(size=49)
    return X[:40], y[:40], X[40:]


@pytest.fixture(scope="session")
def calibration(table: tuple[np.ndarray, ...]) -> list[CalibrationTable]:
    X, y, _ = table
    return [CalibrationTable("tiny", X[:, :3], y)]


@pytest.fixture(scope="session")
def tiny_host() -> Host:
    return host_of(redrawn("tabpfn_v3", **TINY), "tiny")


@pytest.fixture(scope="session")
def tiny_v3_5() -> Host:
    """With fewer heads of keys and values for test rows, as is the default there."""
    return host_of(redrawn("tabpfn_v3_5", **TINY), "tiny-v3.5")


@pytest.fixture(scope="session")
def tiny_v2() -> Host:
    return tiny_grid("tabpfn_v2")


@pytest.fixture(scope="session")
def tiny_v2_5() -> Host:
    return tiny_grid("tabpfn_v2_5")


@pytest.fixture(scope="session")
def tiny_v2_6() -> Host:
    return tiny_grid("tabpfn_v2_6")


@pytest.fixture(scope="session")
def default_host() -> Host:
    return host_of(redrawn("tabpfn_v3"), "default")


@pytest.fixture(scope="session")
def default_v3_5() -> Host:
    return host_of(redrawn("tabpfn_v3_5"), "default-v3.5")


@pytest.fixture(scope="session")
def mini_host() -> Host:
    return retrofit.load_host("mini")


@pytest.fixture
def build_host() -> Callable[..., Host]:
    """Makes a tiny redrawn host with other settings."""

    def build(architecture: str = "tabpfn_v3", seed: int = 0, **settings: object) -> Host:
        return host_of(redrawn(architecture, seed, **{**TINY, **settings}), "built")

    return build
