"""The wiring proof: with presence 1 and no eps, a patched host is the stock host; else it is not.

Every mode in which the estimator drives the model is a path through other code of the host.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from drawn_hosts import decided

import retrofit
from retrofit import CalibrationTable, Host
from retrofit.hosts.probe import Probe, probing

HOSTS = ["tiny_host", "tiny_v3_5", "mini_host"]
LARGE_TAU = 10.0
DEFAULTS = {
    "default_v2": {"attention": 24, "ffn": 12, "norm": 36},
    "default_v2_5": {"attention": 48, "ffn": 24, "norm": 72},
    "default_v2_6": {"attention": 48, "ffn": 24, "norm": 72},
    "default_host": {"attention": 33, "ffn": 33, "norm": 74},
    # The head for regression has a feed-forward and a norm of its own.
    "default_v3_5": {"attention": 33, "ffn": 34, "norm": 75},
}
"""Sites at default size, counted on tabpfn 9.2.0."""
NONE = {"attention": 0, "ffn": 0, "norm": 0, "injection": 0, "statistic": 0}
# float32: some hundred rounded operations on predictions of order one standard deviation.
FLOAT32 = 1e-5
# Relative in float64, where predictions are the same few hundred operations.
FLOAT64 = 1e-12


@dataclass(frozen=True)
class Mode:
    """One way in which the estimator drives the model."""

    name: str
    settings: dict[str, object] = field(default_factory=dict)
    config: dict[str, object] = field(default_factory=dict)
    tolerance: float = FLOAT32


MODES = [
    Mode("plain", {"n_estimators": 1}),
    Mode("batched members", {"n_estimators": 8}),
    Mode("row chunks", config={"inference_chunk_cells": 64}),
    Mode("column chunks", config={"inference_chunk_cells": 64, "inference_col_chunk_size": 3}),
    Mode("memory saving", {"memory_saving_mode": True}),
    Mode("low memory", {"fit_mode": "low_memory"}),
    Mode("cache", {"fit_mode": "fit_with_cache"}),
    Mode("cache, members joined", {"fit_mode": "fit_with_cache", "n_estimators": 8}),
    Mode("float64", {"inference_precision": torch.float64}, tolerance=FLOAT64),
]
AUTOCAST = {"inference_precision": "autocast"}


def predict(host: Host, table: tuple[np.ndarray, ...], settings: dict[str, object]) -> np.ndarray:
    X, y, X_test = table
    defaults = {"n_estimators": 2, "random_state": 0, "device": "cpu"}
    return host.regressor(**(defaults | settings)).fit(X, y).predict(X_test)


def patched_pair(
    host: Host, variant: str, calibration: list[CalibrationTable], large_tau: float = LARGE_TAU
) -> tuple[Host, Host]:
    """The host wired through with presence 1, and with a tau large enough to matter."""
    wired = retrofit.patch(host, variant, presence="one", eps_den=0.0, tables=calibration)
    gated = retrofit.patch(host, variant, tau=large_tau, tables=calibration)
    return wired, gated


def with_config(host: Host, config: dict[str, object]) -> Host:
    """The same weights under other chunk sizes, which do not change what stock computes."""
    if not config:
        return host
    from dataclasses import replace

    from retrofit.hosts.clone import alias

    model = alias(host.model)
    for name, value in config.items():
        setattr(model, name, value)
    return replace(host, model=model)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("variant", ["oa", "full"])
@pytest.mark.parametrize("host_name", HOSTS)
def test_presence_one_is_stock_and_a_large_tau_is_not(
    host_name: str,
    variant: str,
    mode: Mode,
    table: tuple[np.ndarray, ...],
    calibration: list[CalibrationTable],
    request: pytest.FixtureRequest,
) -> None:
    host = with_config(request.getfixturevalue(host_name), mode.config)
    wired, gated = patched_pair(host, variant, calibration)
    scale = table[1].std()
    stock = predict(host, table, mode.settings)
    assert np.abs(predict(wired, table, mode.settings) - stock).max() / scale < mode.tolerance
    assert np.abs(predict(gated, table, mode.settings) - stock).max() / scale > 3e-3


def assert_autocast_adds_no_error(
    host: Host, wired: Host, gated: Host | None, table: tuple[np.ndarray, ...]
) -> None:
    """bfloat16 keeps 8 bits, so stock itself is off; a wired host may be off twice as far."""
    exact = predict(host, table, {})
    stock_error = np.abs(predict(host, table, AUTOCAST) - exact).max()
    assert stock_error > 1e-4 * table[1].std(), "autocast did nothing"
    assert np.abs(predict(wired, table, AUTOCAST) - exact).max() <= 2 * stock_error
    if gated is not None:
        assert np.abs(predict(gated, table, AUTOCAST) - exact).max() > 2 * stock_error


@pytest.mark.parametrize("variant", ["oa", "full"])
@pytest.mark.parametrize("host_name", HOSTS)
def test_autocast_adds_no_error(
    host_name: str,
    variant: str,
    table: tuple[np.ndarray, ...],
    calibration: list[CalibrationTable],
    request: pytest.FixtureRequest,
) -> None:
    host = request.getfixturevalue(host_name)
    wired, gated = patched_pair(host, variant, calibration, large_tau=1e3)
    assert_autocast_adds_no_error(host, wired, gated, table)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("host_name", DEFAULTS)
def test_default_size_in_every_mode(
    host_name: str,
    table: tuple[np.ndarray, ...],
    calibration: list[CalibrationTable],
    request: pytest.FixtureRequest,
) -> None:
    """``full`` holds every line that ``oa`` runs; a predict costs seconds: the table is small."""
    default_host = request.getfixturevalue(host_name)
    chunks = hasattr(default_host.model, "inference_chunk_cells")
    default_host = default_host if chunks else decided(default_host)
    before = {name: tensor.clone() for name, tensor in default_host.model.state_dict().items()}
    X, y, X_test = table
    small = (X[:20, :3], y[:20], X_test[:4, :3])
    wired, gated = patched_pair(default_host, "full", calibration)
    scale = small[1].std()
    for mode in MODES:
        if mode.config and not chunks:
            continue  # up to v2.6 there are no such chunks
        settings = {**mode.settings, "n_estimators": 2 if "members" in mode.name else 1}
        stock = predict(with_config(default_host, mode.config), small, settings)
        equal = predict(with_config(wired, mode.config), small, settings)
        assert np.abs(equal - stock).max() / scale < mode.tolerance, mode.name
        other = predict(with_config(gated, mode.config), small, settings)
        assert np.abs(other - stock).max() / scale > 3e-3, mode.name
    # The twin of the tiny grids is in test_grid_hosts: here a tau that tells would silence them.
    assert_autocast_adds_no_error(default_host, wired, gated if chunks else None, small)
    for model in (default_host.model, gated.restore().model):
        assert type(model) is type(default_host.model)
        assert all(torch.equal(before[name], x) for name, x in model.state_dict().items())


@pytest.mark.parametrize("variant", ["oa", "full"])
@pytest.mark.parametrize(
    ("architecture", "heads"),
    [
        ("tabpfn_v3", {"icl_num_kv_heads": 2}),
        ("tabpfn_v3", {"icl_num_kv_heads_test": 1}),
        ("tabpfn_v3", {"icl_num_kv_heads": 2, "icl_num_kv_heads_test": 1}),
        ("tabpfn_v3", {"feat_agg_num_blocks": 1}),
        ("tabpfn_v3", {"use_rope": False}),
        ("tabpfn_v3_5", {"icl_num_kv_heads_test": None}),
        ("tabpfn_v3_5", {"icl_num_kv_heads": 2, "feat_agg_num_blocks": 1}),
        ("tabpfn_v3_5", {"cell_ecdf_num_buckets": 5, "cell_embed_row_chunk_size": 7}),
    ],
    ids=str,
)
@pytest.mark.parametrize("fit_mode", ["fit_preprocessors", "fit_with_cache"])
def test_other_architectures(
    architecture: str,
    heads: dict[str, object],
    variant: str,
    fit_mode: str,
    build_host: object,
    table: tuple[np.ndarray, ...],
    calibration: list[CalibrationTable],
) -> None:
    host = build_host(architecture, **heads)
    wired, gated = patched_pair(host, variant, calibration)
    settings = {"fit_mode": fit_mode}
    scale = table[1].std()
    stock = predict(host, table, settings)
    assert np.abs(predict(wired, table, settings) - stock).max() / scale < FLOAT32
    assert np.abs(predict(gated, table, settings) - stock).max() / scale > 3e-3


@pytest.mark.parametrize("precision", ["int8", "auto"])
@pytest.mark.parametrize("variant", ["oa", "full"])
@pytest.mark.parametrize("host_name", ["tiny_host", "tiny_v3_5"])
def test_a_cache_keeps_presence_in_every_storage(
    host_name: str,
    variant: str,
    precision: str,
    table: tuple[np.ndarray, ...],
    calibration: list[CalibrationTable],
    request: pytest.FixtureRequest,
) -> None:
    """A gated host predicts from its cache what it predicts without one."""
    tiny_host = request.getfixturevalue(host_name)
    _, gated = patched_pair(tiny_host, variant, calibration)
    direct = predict(gated, table, {"n_estimators": 8})
    cached = {"fit_mode": "fit_with_cache", "kv_cache_precision": precision, "n_estimators": 8}
    scale = table[1].std()
    distance = np.abs(predict(gated, table, cached) - direct).max() / scale
    # int8 holds keys and values to 1/127 of their largest entry.
    assert distance < (FLOAT32 if precision == "auto" else 0.05)
    assert np.abs(predict(tiny_host, table, cached) - direct).max() / scale > 3e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", ["oa", "full"])
@pytest.mark.parametrize("host_name", ["tiny_host", "tiny_v3_5"])
def test_module_level_equality(
    host_name: str,
    variant: str,
    dtype: torch.dtype,
    calibration: list[CalibrationTable],
    request: pytest.FixtureRequest,
) -> None:
    """Logits of the bare module on a batch of two tables: 1e-12 relative in float64."""
    tiny_host: Host = request.getfixturevalue(host_name)
    run = tiny_host.generation.run
    generator = torch.Generator().manual_seed(1)
    x_RBC = torch.randn(30, 2, 6, generator=generator, dtype=dtype)
    y_NB = torch.randn(20, 2, generator=generator, dtype=dtype)
    wired, gated = (p.model.to(dtype) for p in patched_pair(tiny_host, variant, calibration))
    stock = retrofit.patch(tiny_host, "oa", tau=1.0, tables=calibration).restore().model
    expected = run(stock.to(dtype), x_RBC, y_NB)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    assert (run(wired, x_RBC, y_NB) - expected).abs().max() <= tolerance * expected.abs().max()
    assert (run(gated, x_RBC, y_NB) - expected).abs().max() > 1e-3 * expected.abs().max()


class _Counter(Probe):
    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def visit(self, site: str) -> None:
        self.calls[site] = self.calls.get(site, 0) + 1


@pytest.mark.parametrize("host_name", HOSTS)
def test_every_reported_site_runs(
    host_name: str,
    table: tuple[np.ndarray, ...],
    calibration: list[CalibrationTable],
    request: pytest.FixtureRequest,
) -> None:
    patched = retrofit.patch(
        request.getfixturevalue(host_name), "full", tau=1.0, tables=calibration
    )
    counter = _Counter()
    with probing(counter):
        predict(patched, table, {})
    assert set(counter.calls) == {site.name for site in patched.report.sites}
    assert all(site.calls for site in patched.report.sites)


@pytest.mark.parametrize("host_name", DEFAULTS)
def test_default_size_has_its_known_sites(host_name: str, request: pytest.FixtureRequest) -> None:
    host = request.getfixturevalue(host_name)
    full = retrofit.plan(host, "full")
    assert not full.problems
    assert full.counts == NONE | DEFAULTS[host_name]
    assert retrofit.plan(host, "oa").counts == {
        **NONE,
        "attention": DEFAULTS[host_name]["attention"],
    }


@pytest.mark.slow
@pytest.mark.parametrize("host_name", DEFAULTS)
def test_default_size_is_swapped_everywhere(
    host_name: str, calibration: list[CalibrationTable], request: pytest.FixtureRequest
) -> None:
    report = retrofit.patch(request.getfixturevalue(host_name), "full", tables=calibration).report
    assert report.counts == NONE | DEFAULTS[host_name]
    assert all(site.calls for site in report.sites)
