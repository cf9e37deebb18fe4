"""Hosts for the tests: the built-in one, and models whose zero-initialised weights are drawn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# Each worker has a core of its own; set before torch is imported, and inherited by subprocesses.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from drawn_hosts import TINY, host_of, redrawn, tiny_grid

import retrofit
from experiments.machine.threads import pinned_threads
from retrofit import CalibrationTable, Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Small tensors are slower on many threads, and far slower on busy ones."""
    with pinned_threads(1):
        yield


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
def default_v2() -> Host:
    return host_of(redrawn("tabpfn_v2"), "default-v2")


@pytest.fixture(scope="session")
def default_v2_5() -> Host:
    return host_of(redrawn("tabpfn_v2_5"), "default-v2.5")


@pytest.fixture(scope="session")
def default_v2_6() -> Host:
    return host_of(redrawn("tabpfn_v2_6"), "default-v2.6")


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
