"""Sweeps on hosts without a network: what is computed, reused, recorded and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fakes import FakeHost, FakeModel, subjects, toy_source
from sweeping import rows, sweep, untimed

from experiments.data import registry
from experiments.errors import (
    BenchmarkError,
    ConfigError,
    DataError,
    DataUnavailableError,
    InterruptedWriteError,
    ResultsError,
)
from experiments.studies.bench.sweep import bench_sweep
from experiments.sweep.config import SweepConfig
from experiments.sweep.folder.results import read_cases
from experiments.sweep.run import Progress, run_sweep
from experiments.sweep.schema import CaseRow

NAN = float("nan")


def test_sweep_writes_every_table_and_what_ran(toy_config: SweepConfig, tmp_path: Path) -> None:
    outcome = sweep(toy_config, tmp_path, command=["oretro", "eval"])
    assert (outcome.computed, outcome.reused, outcome.failed) == (4 * 5, 0, 0)
    names = {"cases.csv", "deltas.csv", "noise.csv", "summary.csv", "summary.md", "run.json"}
    assert names <= {path.name for path in tmp_path.iterdir()}
    assert set(read_cases(tmp_path / "cases.csv")["status"]) == {"ok"}
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["status"] == "finished"
    assert run["command"] == ["oretro", "eval"]
    assert run["config"]["suite"] == "toy"
    assert run["rows"] == {"ok": 12}
    assert run["kernels"]["oa"] == {"fake": 4}
    assert run["tables"]["left"]["licence"] == "ours"
    assert run["host"]["sha256"] == "f" * 64
    assert {"commit", "dirty"} == set(run["code"])


def test_preprocessing_is_fitted_once_for_all_variants(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    host = FakeHost()
    sweep(toy_config, tmp_path, subjects(host))
    # Once for the variants, and once for the noise floor, which comes after all of them.
    assert [regressor.fits for regressor in host.made] == [1] * 8
    assert [regressor.settings["random_state"] for regressor in host.made] == [1, 2, 1, 2] * 2
    for regressor in host.made:
        assert str(regressor.settings["inference_precision"]) == "torch.float32"
        assert regressor.settings["ignore_pretraining_limits"] is True
        assert regressor.settings["n_estimators"] == 8


def test_change_of_rmse_is_that_of_the_predictions(toy_config: SweepConfig, tmp_path: Path) -> None:
    sweep(toy_config, tmp_path, subjects(oa=FakeModel(0.5), full=FakeModel(0.0)))
    deltas = pd.read_csv(tmp_path / "deltas.csv")
    assert (deltas.loc[deltas["variant"] == "full", "delta_pct"] == 0).all()
    oa = deltas[deltas["variant"] == "oa"]
    expected = 100 * (oa["rmse_variant"] / oa["rmse_stock"] - 1)
    np.testing.assert_allclose(oa["delta_pct"], expected, rtol=1e-12)
    assert (oa["delta_pct"] != 0).all()


def test_second_run_computes_nothing_and_keeps_every_byte(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    sweep(toy_config, tmp_path)
    before = (tmp_path / "cases.csv").read_bytes()
    outcome = sweep(toy_config, tmp_path)
    assert (outcome.computed, outcome.reused) == (0, 20)
    assert (tmp_path / "cases.csv").read_bytes() == before


def test_same_configuration_gives_the_same_bytes_apart_from_times(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        sweep(toy_config, tmp_path / name)
    assert untimed(tmp_path / "first") == untimed(tmp_path / "second")
    other = toy_config.model_copy(update={"seeds": (3,)})
    sweep(other, tmp_path / "third")
    assert untimed(tmp_path / "third") != untimed(tmp_path / "first")


@pytest.mark.parametrize("stop_after", [1, 4, 7, 13, 19])
def test_interrupted_sweep_goes_on_where_it_was(
    toy_config: SweepConfig, tmp_path: Path, stop_after: int
) -> None:
    def stop(progress: Progress) -> None:
        if progress.done == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(toy_config, tmp_path / "stopped", report=stop)
    run = json.loads((tmp_path / "stopped" / "run.json").read_text())
    assert run["status"] == "running"
    outcome = sweep(toy_config, tmp_path / "stopped")
    assert (outcome.computed, outcome.reused) == (20 - stop_after, stop_after)
    sweep(toy_config, tmp_path / "whole")
    assert untimed(tmp_path / "stopped") == untimed(tmp_path / "whole")


def test_noise_rows_stay_out_of_the_cases_and_state_the_floor(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    sweep(toy_config, tmp_path)
    assert set(read_cases(tmp_path / "cases.csv")["variant"]) == {"stock", "oa", "full"}
    noise = set(read_cases(tmp_path / "noise.csv")["variant"])
    assert noise == {"stock@repeat", "stock@other-kernels"}
    text = (tmp_path / "summary.md").read_text()
    assert "Noise floor, `stock@repeat`: mean 0 %, largest 0 % over 4 cases." in text
    assert "Null radius, `oa`: median 0.2, largest 0.3" in text


def test_noise_floor_covers_that_patched_models_are_frozen_and_stock_is_not(
    toy_config: SweepConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def output(model: FakeModel) -> float:
        return model.shift + 0.25 * model.frozen

    monkeypatch.setattr(FakeModel, "output", output)
    sweep(toy_config, tmp_path)
    stock = rows(tmp_path)["left", 1, "stock"]["rmse"]
    noise = rows(tmp_path, "noise.csv")
    assert noise["left", 1, "stock@repeat"]["rmse"] == stock
    assert noise["left", 1, "stock@other-kernels"]["rmse"] != stock


def test_sweep_without_noise_floor_or_with_baselines(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    plain = toy_config.model_copy(update={"noise_floor": False})
    assert sweep(plain, tmp_path).computed == 12
    assert not (tmp_path / "noise.csv").exists()
    # The same folder may be asked for more, and again for less.
    with_baselines = plain.model_copy(update={"baselines": True})
    assert sweep(with_baselines, tmp_path).computed == 16
    baselines = read_cases(tmp_path / "cases.csv").query("variant == 'random_forest'")
    assert set(baselines["status"]) == {"ok"}
    assert set(baselines["host"]) == {""}
    assert "geometric mean" in (tmp_path / "baselines.md").read_text()
    assert len(pd.read_csv(tmp_path / "deltas.csv")) == 8
    assert sweep(plain, tmp_path).computed == 0


def test_stock_alone_can_be_compared_with_baselines(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    alone = {"variants": ("stock",), "baselines": True, "noise_floor": False}
    sweep(toy_config.model_copy(update=alone), tmp_path, subjects(oa=FakeModel()))
    assert len(read_cases(tmp_path / "cases.csv")) == 4 * 5
    ratios = pd.read_csv(tmp_path / "baselines.csv")
    assert set(ratios["dataset"]) == {"left", "right", "geometric mean"}
    assert (ratios["rmse_ratio"] > 0).all()


def test_more_seeds_extend_a_folder_and_fewer_are_refused(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    sweep(toy_config, tmp_path)
    more = toy_config.model_copy(update={"seeds": (1, 2, 3)})
    assert sweep(more, tmp_path).computed == 10
    with pytest.raises(ResultsError, match=r"seed 3, .* not part of this run"):
        sweep(toy_config, tmp_path)
    assert sweep(toy_config, tmp_path, fresh=True).computed == 20


@pytest.mark.parametrize(
    "change",
    [
        {"target_presence": 0.9},
        {"tau": 0.1},
        {"n_estimators": 2},
        {"eps_den": 1e-6},
        {"eps_mode": "relative"},
    ],
    ids=str,
)
def test_other_settings_do_not_mix_into_a_folder(
    toy_config: SweepConfig, tmp_path: Path, change: dict[str, object]
) -> None:
    sweep(toy_config, tmp_path)
    with pytest.raises(ResultsError, match="under other conditions"):
        sweep(toy_config.model_copy(update=change), tmp_path)


def test_changed_table_under_the_same_name_is_refused(
    toy_config: SweepConfig, tmp_path: Path, toy_tables: dict[str, pd.DataFrame]
) -> None:
    sweep(toy_config, tmp_path)
    toy_tables["left"].loc[0, "x"] += 1e-9
    with pytest.raises(ResultsError, match="data_sha256"):
        sweep(toy_config, tmp_path)


def away(name: str, tables: dict[str, pd.DataFrame], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one table be unavailable, as a data set on a server can be."""
    source = toy_source(**tables)

    def load(wanted: str, settings: object) -> object:
        if wanted == name:
            raise DataUnavailableError(f"{name}: the server does not answer")
        return source.load(wanted, settings)

    monkeypatch.setattr(registry, "SOURCES", {"toy": replace(source, load=load)})


def test_data_set_that_is_away_for_a_moment_keeps_its_rows(
    toy_config: SweepConfig,
    tmp_path: Path,
    toy_tables: dict[str, pd.DataFrame],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sweep(toy_config, tmp_path)
    before = (tmp_path / "cases.csv").read_bytes()
    with monkeypatch.context() as patch:
        away("right", toy_tables, patch)
        outcome = sweep(toy_config, tmp_path)
        assert [name for name, _ in outcome.missing] == ["right"]
        assert (outcome.computed, (tmp_path / "cases.csv").read_bytes()) == (0, before)
        # The twin: rows made under other conditions, or of a seed that is not asked for, are not.
        drop_rows_of(tmp_path, "left")
        with pytest.raises(ResultsError, match=r"right, seed 1, .*other conditions.*0\.9"):
            sweep(toy_config.model_copy(update={"target_presence": 0.9}), tmp_path)
        with pytest.raises(ResultsError, match=r"right, seed 2, .*not part of this run"):
            sweep(toy_config.model_copy(update={"seeds": (1,)}), tmp_path)
    assert sweep(toy_config, tmp_path).computed == 10
    assert len(read_cases(tmp_path / "cases.csv")) == 12


def drop_rows_of(folder: Path, dataset: str) -> None:
    for kind in ("cases", "noise"):
        for path in (folder / kind).glob(f"{dataset}-*.json"):
            path.unlink()


def test_unknown_data_set_stops_before_the_host_is_loaded(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    config = toy_config.model_copy(update={"datasets": ("left", "rihgt")})

    def load(_: SweepConfig):
        raise AssertionError("the host was loaded")

    with pytest.raises(DataError, match="did you mean right"):
        run_sweep(config, tmp_path, load=load)


def test_limit_takes_the_first_cases(toy_config: SweepConfig, tmp_path: Path) -> None:
    sweep(toy_config.model_copy(update={"limit": 3}), tmp_path)
    places = {(place[0], place[1]) for place in rows(tmp_path)}
    assert places == {("left", 1), ("left", 2), ("right", 1)}


def test_write_error_in_mid_sweep_keeps_what_is_done(
    toy_config: SweepConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.sweep.folder import store

    written: list[Path] = []

    def nearly_full(path: Path, text: str) -> None:
        if len(written) >= 6:
            raise OSError(28, "No space left on device")
        written.append(path)
        real(path, text)

    real = store.write_atomic
    monkeypatch.setattr(store, "write_atomic", nearly_full)
    with pytest.raises(InterruptedWriteError, match=r"No space left.*run the same command again"):
        sweep(toy_config, tmp_path)
    monkeypatch.setattr(store, "write_atomic", real)
    assert sweep(toy_config, tmp_path).reused == 3


def test_the_first_variant_changes_with_the_seed_and_noise_comes_after_the_tables(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    order: list[CaseRow] = []
    told: list[tuple[int, int]] = []
    sweep(
        toy_config,
        tmp_path,
        report=lambda progress: order.append(progress.row),
        before_noise=lambda: told.append((len(order), len(read_cases(tmp_path / "cases.csv")))),
    )
    variants, noise = order[:12], order[12:]
    assert told == [(12, 12)]
    assert len({row.variant for row in variants[::3]}) == 2
    assert {row.variant for row in noise} == {"stock@repeat", "stock@other-kernels"}
    told.clear()
    sweep(toy_config, tmp_path, before_noise=lambda: told.append((0, 0)))
    assert not told


def test_misspelt_device_stops_before_anything_is_touched(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="device: 'cdua' is none"):
        sweep(toy_config.model_copy(update={"device": "cdua"}), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_automatic_device_is_settled_and_recorded(
    toy_config: SweepConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda *_: "Model A")
    host = FakeHost()
    auto = toy_config.model_copy(update={"device": "auto"})
    sweep(auto, tmp_path, subjects(host))
    assert {regressor.settings["device"] for regressor in host.made} == {"cuda:0"}
    assert json.loads((tmp_path / "run.json").read_text())["device"] == "cuda Model A"
    # Other kernels exist on a CPU alone.
    assert set(read_cases(tmp_path / "noise.csv")["variant"]) == {"stock@repeat"}
    monkeypatch.setattr("torch.cuda.get_device_name", lambda *_: "Model B")
    with pytest.raises(ResultsError, match="device: cuda Model A -> cuda Model B"):
        sweep(auto, tmp_path)


def test_the_bench_of_the_harness_times_equal_scores(toy_config: SweepConfig) -> None:
    rows = bench_sweep(toy_config, rounds=2, load=lambda _: subjects(oa=FakeModel(0.5)))
    assert [(row.cases, row.predictions) for row in rows] == [(4, 12)] * 2
    assert all(row.ratio == row.sweep_s / row.loop_s > 0 for row in rows)
    others = iter([subjects(oa=FakeModel(0.5)), subjects(oa=FakeModel(0.4))])
    with pytest.raises(BenchmarkError, match="different scores"):
        bench_sweep(toy_config, load=lambda _: next(others))
