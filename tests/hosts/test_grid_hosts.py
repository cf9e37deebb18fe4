"""Hosts of v2, v2.5 and v2.6: the wiring proof in every mode, counts, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from drawn_hosts import TINY_GRIDS, host_of, redrawn, tiny_grid
from tabpfn.architectures import ARCHITECTURES

import retrofit
from retrofit import CalibrationTable, Host
from retrofit.errors import UnsupportedHostError
from retrofit.hosts.clone import alias
from retrofit.hosts.registry import generation_of

pytestmark = pytest.mark.usefixtures("one_thread")

Table = tuple[np.ndarray, ...]
GRIDS = ["tiny_v2", "tiny_v2_5", "tiny_v2_6"]
# float32: some hundred rounded operations on predictions of order one standard deviation.
FLOAT32 = 1e-5
# Attention alone leaves post-norm carriers as long as stock has them, width 32. Gated norms shorten
# what the next gate sees, so a tau far beyond the width would silence a whole host.
LARGE_TAU = {"oa": 1e3, "full": 10.0, "closed": 10.0}
MODES: dict[str, dict[str, object]] = {
    "plain": {"n_estimators": 1},
    "several members": {"n_estimators": 8},
    "memory saving": {"memory_saving_mode": True},
    "low memory": {"fit_mode": "low_memory"},
    "cache": {"fit_mode": "fit_with_cache"},
    "autocast": {"inference_precision": "autocast"},
}
COUNTS = {"default_v2": (12, 4), "default_v2_5": (24, 5), "default_v2_6": (24, 5)}


def predict(host: Host, table: Table, settings: dict[str, object]) -> np.ndarray:
    X, y, X_test = table
    defaults = {"n_estimators": 2, "random_state": 0, "device": "cpu"}
    return host.regressor(**(defaults | settings)).fit(X, y).predict(X_test)


@pytest.mark.parametrize("variant", ["oa", "full"])
@pytest.mark.parametrize("grid", GRIDS)
def test_presence_one_is_stock_and_a_large_tau_is_not(
    grid: str,
    variant: str,
    table: Table,
    calibration: list[CalibrationTable],
    request: pytest.FixtureRequest,
) -> None:
    host, scale = request.getfixturevalue(grid), table[1].std()
    wired = retrofit.patch(host, variant, presence="one", eps_den=0.0, tables=calibration)
    gated = retrofit.patch(host, variant, tau=LARGE_TAU[variant], tables=calibration)
    assert all(site.calls for site in gated.report.sites)
    exact = predict(host, table, {})
    for mode, settings in MODES.items():
        stock = predict(host, table, settings)
        equal, other = (predict(patched, table, settings) for patched in (wired, gated))
        tolerance = FLOAT32 * scale
        if mode == "autocast":
            # bfloat16 keeps 8 bits, so stock itself is off; a wired host may be off twice as far.
            tolerance, stock = 2 * np.abs(stock - exact).max(), exact
            assert tolerance > 1e-4 * scale, "autocast did nothing"
        assert np.abs(equal - stock).max() < tolerance, mode
        assert np.abs(other - stock).max() > max(2 * tolerance, 3e-3 * scale), mode


@pytest.mark.parametrize("variant", ["oa", "full", "closed"])
@pytest.mark.parametrize("grid", GRIDS)
def test_module_level_equality_and_restore(
    grid: str, variant: str, calibration: list[CalibrationTable], request: pytest.FixtureRequest
) -> None:
    """Logits on a batch of two tables: 1e-12 relative in float64; restored, to the bit."""
    host: Host = request.getfixturevalue(grid)
    before = {name: tensor.clone() for name, tensor in host.model.state_dict().items()}
    generator = torch.Generator().manual_seed(1)
    x_RBC = torch.randn(30, 2, 6, generator=generator, dtype=torch.float64)
    y_NB = torch.randn(20, 2, generator=generator, dtype=torch.float64)
    wired = retrofit.patch(host, variant, presence="one", eps_den=0.0, tables=calibration)
    gated = retrofit.patch(host, variant, tau=LARGE_TAU[variant], tables=calibration)
    stock, restored = (alias(x.model).double() for x in (host, wired.restore()))
    expected = stock(x_RBC, y_NB)
    largest = expected.abs().max()
    assert (alias(wired.model).double()(x_RBC, y_NB) - expected).abs().max() <= 1e-12 * largest
    assert (alias(gated.model).double()(x_RBC, y_NB) - expected).abs().max() > 1e-2 * largest
    assert type(restored) is type(stock)
    assert torch.equal(restored(x_RBC, y_NB), expected)
    assert all(
        torch.equal(before[name], x) for name, x in wired.restore().model.state_dict().items()
    )
    assert all(torch.equal(before[name], x) for name, x in host.model.state_dict().items())


@pytest.mark.parametrize("host_name", COUNTS)
def test_default_size_has_its_known_sites_of_closed(
    host_name: str, request: pytest.FixtureRequest
) -> None:
    """Counted on tabpfn 9.2.0; those of the other variants are in ``test_wiring``."""
    layers, injections = COUNTS[host_name]
    known = {"attention": 2 * layers, "ffn": layers, "norm": 3 * layers}
    closed = retrofit.plan(request.getfixturevalue(host_name), "closed")
    assert not closed.problems
    assert closed.counts == {**known, "injection": injections, "statistic": 3}


@pytest.mark.parametrize("architecture", TINY_GRIDS)
def test_a_model_in_memory_tells_its_configuration(architecture: str) -> None:
    settings = {"emsize": 48, "nlayers": 3, "nhead": 2, "features_per_group": 2}
    more = {} if architecture == "tabpfn_v2" else {"encoder_type": "mlp"}
    model = redrawn(architecture, **{**TINY_GRIDS[architecture], **settings, **more})
    if hasattr(model, "seed"):
        model.seed = 7
    read = generation_of(architecture).config_of(model)
    again = ARCHITECTURES[architecture].get_architecture(read)
    assert again.load_state_dict(model.state_dict()).missing_keys == []
    assert getattr(again, "seed", 7) == 7
    assert not retrofit.plan(host_of(model), "closed").problems


@pytest.mark.parametrize("architecture", TINY_GRIDS)
def test_a_classifier_is_refused(architecture: str) -> None:
    model = redrawn(architecture, **{**TINY_GRIDS[architecture], "max_num_classes": 3})
    with pytest.raises(UnsupportedHostError, match="is a multiclass model; oretro patches regres"):
        host_of(model)


def test_a_model_without_borders_needs_a_criterion() -> None:
    host = tiny_grid("tabpfn_v2")
    with pytest.raises(UnsupportedHostError, match=r"carries no borders.* give criterion="):
        Host.from_model(host.model, host.inference_config)
