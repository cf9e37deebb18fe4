"""Stored predictions: the numbers that the scores are of, resumed with the cases, and drawn."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import call
from fakes import subjects, toy_frame
from sweeping import rows, sweep

from experiments.errors import MissingExtraError, ResultsError
from experiments.report.report import write_report
from experiments.sweep.config import SweepConfig

FILE = "predictions.parquet"


@pytest.fixture
def saving(toy_config: SweepConfig) -> SweepConfig:
    return toy_config.model_copy(update={"save_predictions": True})


def test_predictions_are_those_of_the_scores(saving: SweepConfig, tmp_path: Path) -> None:
    sweep(saving.model_copy(update={"baselines": True, "seeds": (1,)}), tmp_path)
    table = pd.read_parquet(tmp_path / FILE)
    assert list(table.columns)[:7] == ["dataset", "seed", "row", "y", "stock", "oa", "full"]
    assert "ridge" in table.columns
    assert table.notna().all().all()
    scored = rows(tmp_path)
    for (dataset, seed), own in table.groupby(["dataset", "seed"]):
        for name in ("stock", "oa", "full", "ridge"):
            rmse = np.sqrt(np.mean((own[name] - own["y"]) ** 2))
            assert rmse == pytest.approx(scored[dataset, seed, name]["rmse"], rel=1e-12)
        target = toy_frame(*{"left": (20, 1), "right": (24, 2)}[dataset])["y"]
        np.testing.assert_array_equal(own["y"], target[own["row"]])
    np.testing.assert_allclose(table["oa"] - table["stock"], 0.01, atol=1e-12)


def test_without_the_option_nothing_is_kept(toy_config: SweepConfig, tmp_path: Path) -> None:
    sweep(toy_config, tmp_path)
    assert not (tmp_path / FILE).exists()
    assert not any("predictions" in p.read_text() for p in (tmp_path / "cases").glob("*.json"))


def test_a_finished_folder_gains_them_and_a_stopped_one_goes_on(
    toy_config: SweepConfig, saving: SweepConfig, tmp_path: Path
) -> None:
    sweep(saving, tmp_path / "whole")
    sweep(toy_config, tmp_path / "o")
    assert sweep(saving, tmp_path / "o").computed == 4 * 3  # all but the noise rows
    wanted = (tmp_path / "whole" / FILE).read_bytes()
    assert (tmp_path / "o" / FILE).read_bytes() == wanted
    assert sweep(saving, tmp_path / "o").computed == 0
    (tmp_path / "o" / "cases" / "left-1-oa.json").unlink()
    (tmp_path / "o" / FILE).unlink()
    assert sweep(saving, tmp_path / "o").computed == 1
    assert (tmp_path / "o" / FILE).read_bytes() == wanted


def test_a_report_draws_them_and_refuses_a_file_that_was_changed(
    saving: SweepConfig, toy_config: SweepConfig, tmp_path: Path
) -> None:
    sweep(saving, tmp_path / "o")
    names = {path.name for path in write_report(tmp_path / "o").files}
    assert {"predictions.svg", "predictions.png"} <= names
    assert "Prediction of each test row" in (tmp_path / "o" / "report.md").read_text()
    sweep(toy_config, tmp_path / "plain")
    assert "predictions.svg" not in {path.name for path in write_report(tmp_path / "plain").files}
    pd.read_parquet(tmp_path / "o" / FILE).iloc[1:].to_parquet(tmp_path / "o" / FILE)
    with pytest.raises(ResultsError, match=r"predictions.parquet is not the table"):
        write_report(tmp_path / "o", figures=False)


def test_the_option_reaches_the_run(
    monkeypatch: pytest.MonkeyPatch, toy_yaml: str, tmp_path: Path, fake_load
) -> None:
    fake_load()
    out = tmp_path / "o"
    command = ["eval", toy_yaml, "--out", str(out), "-q"]
    assert call(monkeypatch, *command, "--save-predictions") == 0
    assert len(pd.read_parquet(out / FILE)) == 6 + 8
    assert call(monkeypatch, *command, "--fresh") == 0
    assert not (out / FILE).exists()


def test_a_missing_writer_is_said_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, saving: SweepConfig, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match="no usable pyarrow"):
        sweep(saving, tmp_path / "o", subjects())
    assert not (tmp_path / "o").exists()
