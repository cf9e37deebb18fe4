"""Calibration: the smallest legitimate carriers keep the presence that was asked for."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import retrofit
from retrofit import CalibrationTable, Host, errors


@pytest.mark.parametrize("target", [0.9, 0.999])
def test_the_first_percentile_gets_the_target_presence(target: float, mini_host: Host) -> None:
    """On stock's own carriers, which a host with presence 1 and no eps shows."""
    stock_like = retrofit.patch(mini_host, "full", presence="one", eps_den=0.0).report
    tau = retrofit.patch(mini_host, "full", target_presence=target).config.tau
    for stream in stock_like.streams:
        q01 = stream.squared_norm_q01
        # tau is kept to four significant digits.
        assert q01 / (tau[stream.name] + q01) == pytest.approx(target, abs=1e-3 * (1 - target))


def test_null_radius_is_where_presence_is_one_half(mini_host: Host) -> None:
    """From its definition: p = 1/2 at |h|^2 = tau, relative to the median norm."""
    for stream in retrofit.patch(mini_host, "oa", target_presence=0.99).report.streams:
        norm = stream.null_radius * np.sqrt(stream.squared_norm_median)
        assert norm**2 / (stream.tau + norm**2) == pytest.approx(0.5)


def test_a_laxer_target_moves_predictions_more(
    mini_host: Host, table: tuple[np.ndarray, ...]
) -> None:
    X, y, X_test = table
    settings = {"n_estimators": 1, "random_state": 0, "device": "cpu"}
    stock = mini_host.regressor(**settings).fit(X, y).predict(X_test)
    shifts = []
    for target in (0.9999, 0.99, 0.9):
        patched = retrofit.patch(mini_host, "full", target_presence=target)
        gated = patched.regressor(**settings).fit(X, y).predict(X_test)
        shifts.append(np.abs(gated - stock).max())
    assert 0 < shifts[0] < shifts[1] < shifts[2]


def test_calibration_is_the_same_twice_and_follows_its_tables(mini_host: Host) -> None:
    first, again = (retrofit.patch(mini_host, "oa").config.tau for _ in range(2))
    assert first == again
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 3))
    other = [CalibrationTable("mine", X, X[:, 0])]
    assert retrofit.patch(mini_host, "oa", tables=other).config.tau != first


def test_the_report_names_its_tables(mini_host: Host) -> None:
    X = np.random.default_rng(3).normal(size=(50, 3))
    tables = [CalibrationTable("mine", X, X[:, 0])]
    report = retrofit.patch(mini_host, "oa", tables=tables).report
    assert [str(table) for table in report.tables] == ["mine (50, 3)"]
    kept = {"variant oa leaves ffn sites as they are", "variant oa leaves norm sites as they are"}
    assert kept <= set(report.skipped.values())
    assert not set(report.skipped) & {site.name for site in report.sites}


def test_a_large_eps_is_warned_about(mini_host: Host) -> None:
    report = retrofit.patch(mini_host, "oa", tau=1e-3, eps_den=1.0).report
    assert report.eps_share > 1e-3
    assert any("eps_den took" in warning for warning in report.warnings)
    assert not retrofit.patch(mini_host, "oa", tau=1e-3).report.warnings


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((3, 2)), np.zeros(3)[:2]),
        (np.zeros(5), np.zeros(5)),
        (np.zeros((2, 2)), np.zeros(2)),
        (np.zeros((9, 0)), np.arange(9.0)),
        (np.full((9, 1), "text"), np.arange(9.0)),
        (np.ones((9, 1)), np.full(9, np.nan)),
        (np.full((9, 1), np.inf), np.arange(9.0)),
        (np.float64(1.0), np.float64(1.0)),
    ],
    ids=["lengths", "one axis", "two rows", "no column", "text", "no target", "inf", "scalars"],
)
def test_unusable_tables_are_named(mini_host: Host, X: np.ndarray, y: np.ndarray) -> None:
    with pytest.raises(errors.CalibrationError, match="'bad'"):
        retrofit.patch(mini_host, "oa", tables=[CalibrationTable("bad", X, y)])


def test_a_table_that_runs_no_network_is_refused(mini_host: Host) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    constant = [CalibrationTable("constant", X, np.ones(20))]
    for settings in ({}, {"tau": 1e-3}):
        with pytest.raises(
            errors.CalibrationError, match="are all equal, so that no network would run"
        ):
            retrofit.patch(mini_host, "oa", tables=constant, **settings)


def test_tokens_too_rare_for_a_percentile_are_warned_about(mini_host: Host) -> None:
    """Four CLS tokens beside hundreds of columns are less than one in a hundred."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 480))
    report = retrofit.patch(mini_host, "oa", tables=[CalibrationTable("wide", X, X[:, 0])]).report
    (warning,) = report.warnings
    assert warning.startswith("the smallest carrier of stream column_aggregator.blocks.0:carrier")
    assert min(stream.presence_min for stream in report.streams) < 0.6
    assert retrofit.patch(mini_host, "oa").report.warnings == []


def test_share_of_eps_does_not_depend_on_the_parts_it_is_measured_in(
    mini_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = retrofit.patch(mini_host, "oa", tau=1.0, eps_den=1e-3).report
    # The attribute of the package is the function of the same name.
    monkeypatch.setattr(sys.modules["retrofit.patching.calibrate"], "_SCORES", 500)
    parts = retrofit.patch(mini_host, "oa", tau=1.0, eps_den=1e-3).report
    shares = [(a.eps_share, b.eps_share) for a, b in zip(whole.sites, parts.sites, strict=True)]
    # Products of fewer rows round differently.
    assert all(a == pytest.approx(b, rel=1e-4) for a, b in shares)
    assert whole.eps_share > 1e-6


def test_what_is_no_table_or_no_tau_is_refused_by_name(mini_host: Host) -> None:
    X = np.random.default_rng(3).normal(size=(50, 3))
    table = CalibrationTable("mine", X, X[:, 0])
    found = retrofit.calibrate(mini_host, "oa", tables=[table])
    for tables, reason in (
        (found, "is given as tau"),
        (table, "not a CalibrationTable"),
        ([X], "sequence of CalibrationTable"),
    ):
        with pytest.raises(errors.VariantError, match=reason):
            retrofit.patch(mini_host, "oa", tables=tables)
    with pytest.raises(errors.VariantError, match=r"tau is a str.*Calibration\.load"):
        retrofit.patch(mini_host, "oa", tau="tau.json")
    with pytest.raises(errors.VariantError, match="leave it out"):
        retrofit.patch(mini_host, "oa", presence="calibrated", tau=1e-3)


def test_no_table_at_all_is_refused(mini_host: Host) -> None:
    with pytest.raises(errors.CalibrationError, match="no calibration tables"):
        retrofit.patch(mini_host, "oa", tables=[])


@pytest.mark.parametrize("target", [0.0, 1.0, -1.0, float("nan")])
def test_targets_outside_the_unit_interval_are_refused(mini_host: Host, target: float) -> None:
    with pytest.raises(errors.RetrofitError, match="target_presence"):
        retrofit.patch(mini_host, "oa", target_presence=target)
