"""Sweeps in which something fails: it is named, and costs no other row."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from fakes import FakeHost, FakeModel, FakeRegressor, count_none, subjects, toy_frame, toy_source
from sweeping import one_table, rows, sweep

from experiments.data import registry
from experiments.sweep.config import SweepConfig

NAN = float("nan")


def test_failing_variant_is_recorded_and_the_others_go_on(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    broken = FakeModel(error=RuntimeError("bad\n  kernel"))
    outcome = sweep(toy_config, tmp_path, subjects(oa=broken, full=FakeModel(0.1)))
    assert outcome.failed == 4
    found = rows(tmp_path)
    assert found["left", 1, "oa"]["status"] == "failed"
    assert found["left", 1, "oa"]["error"] == "RuntimeError: bad kernel"
    assert np.isnan(found["left", 1, "oa"]["rmse"])
    assert found["left", 1, "full"]["status"] == found["right", 2, "stock"]["status"] == "ok"
    record = json.loads((tmp_path / "cases" / "left-1-oa.json").read_text())
    assert "Traceback" in record["details"]["traceback"]
    assert "left, seed 1, oa: RuntimeError: bad kernel" in (tmp_path / "summary.md").read_text()


def test_model_that_does_not_fit_on_its_device_fails_its_own_rows(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    large = FakeModel(move_error=torch.OutOfMemoryError("no room on the device"))
    outcome = sweep(toy_config, tmp_path, subjects(oa=large, full=FakeModel(0.1)))
    found = rows(tmp_path)
    assert outcome.failed == 4
    assert found["right", 2, "oa"]["error"] == "OutOfMemoryError: no room on the device"
    assert found["right", 2, "full"]["status"] == found["right", 2, "stock"]["status"] == "ok"


def test_failed_rows_are_tried_again(toy_config: SweepConfig, tmp_path: Path) -> None:
    sweep(toy_config, tmp_path, subjects(oa=FakeModel(error=RuntimeError()), full=FakeModel(0.1)))
    mended = subjects(oa=FakeModel(0.01), full=FakeModel(0.1))
    outcome = sweep(toy_config, tmp_path, mended)
    assert (outcome.computed, outcome.failed) == (4, 0)


def test_nan_of_a_patched_model_never_becomes_a_score(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    loud = FakeModel(NAN)
    loud._nan_safe_output = False
    sweep(toy_config, tmp_path, subjects(oa=loud, full=FakeModel(0.1)))
    assert "NonFinitePredictionError" in rows(tmp_path)["left", 1, "oa"]["error"]


def test_nan_of_stock_is_not_hidden_by_tabpfns_guard(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    # The fake, like tabpfn v3, turns NaN into 0 unless its guard is taken off.
    assert FakeModel(NAN).output() == 0.0
    outcome = sweep(toy_config, tmp_path, subjects(FakeHost(shift=NAN)))
    found = rows(tmp_path)
    assert found["left", 1, "stock"]["status"] == "failed"
    assert found["left", 1, "oa"]["status"] == "ok"
    assert rows(tmp_path, "noise.csv")["left", 1, "stock@repeat"]["status"] == "failed"
    assert outcome.failed == 4


def test_patched_model_that_never_ran_is_a_failure_and_not_a_score_of_stock(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    sweep(toy_config, tmp_path, subjects(record=count_none))
    found = rows(tmp_path)
    assert "the patched model was not used" in found["left", 1, "oa"]["error"]
    assert found["left", 1, "stock"]["status"] == "ok"


def test_failing_fit_fails_the_case_for_all_variants(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    sweep(toy_config, tmp_path, subjects(FakeHost(fit_error=MemoryError("no room"))))
    assert {row["error"] for row in rows(tmp_path).values()} == {"MemoryError: no room"}


def test_constant_training_target_is_scored_flagged_and_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = one_table(monkeypatch, toy_frame().assign(y=5.0))
    outcome = sweep(config, tmp_path)
    found = rows(tmp_path)
    assert outcome.failed == 0
    assert {row["status"] for row in found.values()} == {"constant"}
    assert {row["rmse"] for row in found.values()} == {0.0}
    assert "patch is untested" in found["only", 1, "oa"]["error"]
    deltas = pd.read_csv(tmp_path / "deltas.csv")
    assert deltas["delta_pct"].tolist() == [0.0, 0.0]
    assert deltas["note"].str.contains("network did not run").all()


@pytest.mark.parametrize(("size", "status"), [(1, "skipped"), (2, "skipped"), (3, "ok")])
def test_tiny_table_is_skipped_with_the_reason_and_without_failing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int, status: str
) -> None:
    host = FakeHost()
    outcome = sweep(one_table(monkeypatch, toy_frame(size)), tmp_path, subjects(host))
    found = rows(tmp_path)
    assert {row["status"] for row in found.values()} == {status}
    assert outcome.failed == 0
    if status == "skipped":
        assert not host.made
        assert "rows leave" in found["only", 1, "stock"]["error"]
        assert sweep(one_table(monkeypatch, toy_frame(size)), tmp_path).computed == 0


def test_target_beyond_float32_is_a_named_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frame = toy_frame()
    sweep(one_table(monkeypatch, frame.assign(y=frame["y"] * 1e200)), tmp_path)
    assert all("target range" in row["error"] for row in rows(tmp_path).values())


def test_equal_predictions_for_all_rows_are_pointed_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = one_table(monkeypatch, toy_frame().assign(x=0.0))
    sweep(config, tmp_path)
    row = rows(tmp_path)["only", 1, "stock"]
    assert (row["status"], row["error"]) == (
        "dead",
        "all predicted means are equal, up to rounding",
    )


@pytest.mark.parametrize("spread", [0.0, 1e-8])
def test_dead_host_is_flagged_and_left_out_of_the_mean(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spread: float
) -> None:
    alive, dead = toy_frame(20, 1), toy_frame(20, 2)
    dead["x"] *= spread
    monkeypatch.setattr(registry, "SOURCES", {"toy": toy_source(alive=alive, dead=dead)})
    config = SweepConfig(suite="toy", host="fake", datasets=("alive", "dead"), seeds=(1,))
    sweep(config, tmp_path)
    found = rows(tmp_path)
    assert found["dead", 1, "stock"]["status"] == "dead"
    assert found["alive", 1, "stock"]["status"] == "ok"
    deltas = pd.read_csv(tmp_path / "deltas.csv").set_index(["dataset", "variant"])
    assert deltas.loc[("dead", "oa"), "note"].startswith("dead host")
    summary = pd.read_csv(tmp_path / "summary.csv").set_index("variant")
    assert summary.loc["oa", "cases"] == summary.loc["oa", "left_out"] == 1
    assert summary.loc["oa", "mean_pct"] == deltas.loc[("alive", "oa"), "delta_pct"]
    assert "1 of them because the host is dead" in (tmp_path / "summary.md").read_text()


def test_variant_that_collapses_where_stock_does_not_stays_in_the_mean(
    toy_config: SweepConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Flat(FakeModel):
        def output(self) -> np.ndarray:
            return self.level

    flat = Flat()
    # Takes back what the regressor adds for the first column, row by row.
    monkeypatch.setattr(FakeRegressor, "predict", flattened(FakeRegressor.predict, flat))
    sweep(toy_config, tmp_path, subjects(oa=flat, full=FakeModel(0.1)))
    row = rows(tmp_path)["left", 1, "oa"]
    assert (row["status"], row["error"]) == ("ok", "all predicted means are equal, up to rounding")
    summary = pd.read_csv(tmp_path / "summary.csv").set_index("variant")
    assert summary.loc["oa", "left_out"] == 0
    assert summary.loc["oa", "mean_pct"] > 1


def flattened(predict, flat):
    def wrapped(self, X: pd.DataFrame, **options):
        flat.level = -0.5 * np.nan_to_num(X.iloc[:, 0].to_numpy(dtype=np.float64))
        return predict(self, X, **options)

    return wrapped


@pytest.mark.parametrize("scale", [1e200, 1e-14, 1e-200])
def test_target_of_a_scale_that_float32_cannot_carry_fails_baselines_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scale: float
) -> None:
    frame = toy_frame()
    config = one_table(monkeypatch, frame.assign(y=frame["y"] * scale), baselines=True)
    outcome = sweep(config, tmp_path)
    found = rows(tmp_path)
    assert len(found) == 7
    assert {row["status"] for row in found.values()} == {"failed"}
    assert all("target range" in row["error"] for row in found.values())
    assert outcome.failed == 7


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e25])
def test_target_of_any_other_scale_is_scored_to_scale(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scale: float
) -> None:
    frame = toy_frame()
    config = one_table(monkeypatch, frame.assign(y=frame["y"] * scale), variants=("stock",))
    config = config.model_copy(update={"baselines": True, "noise_floor": False})
    sweep(config, tmp_path, subjects(oa=FakeModel()))
    found = rows(tmp_path)
    assert {row["status"] for place, row in found.items() if place[2] != "stock"} == {"ok"}
    assert 0.1 < found["only", 1, "ridge"]["rmse"] / scale < 10


class Untold(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit(0), "SystemExit: 0"),
        (GeneratorExit(), "GeneratorExit: "),
        (BaseException("x\0y\x1b[31m"), "BaseException: x\N{REPLACEMENT CHARACTER}y"),
        (MemoryError("no room"), "MemoryError: no room"),
        (Untold(), "Untold: cannot be told: its text is a ValueError"),
        (RuntimeError("n" * 10**6), "RuntimeError: nnn"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("where", ["fit", "predict"])
def test_whatever_a_host_raises_fails_its_rows_alone(
    toy_config: SweepConfig, tmp_path: Path, error: BaseException, told: str, where: str
) -> None:
    if where == "fit":
        what = subjects(FakeHost(fit_error=error))
    else:
        what = subjects(oa=FakeModel(error=error), full=FakeModel(0.1))
    outcome = sweep(toy_config, tmp_path, what)
    found = rows(tmp_path)
    assert outcome.failed == (12 if where == "fit" else 4)
    assert found["left", 1, "oa"]["error"].startswith(told)
    assert len(found["left", 1, "oa"]["error"]) <= 500
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.json")) < 10**6


@pytest.mark.parametrize("where", ["fit", "predict"])
def test_interrupt_inside_a_host_ends_the_sweep(
    toy_config: SweepConfig, tmp_path: Path, where: str
) -> None:
    if where == "fit":
        what = subjects(FakeHost(fit_error=KeyboardInterrupt()))
    else:
        what = subjects(oa=FakeModel(error=KeyboardInterrupt()), full=FakeModel(0.1))
    with pytest.raises(KeyboardInterrupt):
        sweep(toy_config, tmp_path, what)
