"""A score is one entry of the registry, and then stands in every table, page and console."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import call
from fakes import subjects

from experiments.errors import ResultsError
from experiments.report.report import write_report
from experiments.report.summary import summarise_folder
from experiments.sweep import metrics
from experiments.sweep.config import SweepConfig
from experiments.sweep.folder.results import read_cases
from experiments.sweep.metrics import Beside, Prediction, Score
from experiments.sweep.run import run_sweep


def pinball(y_N: np.ndarray, prediction: Prediction) -> float:
    error_N = y_N - prediction.quantiles[0.3]
    return float(np.mean(np.maximum(0.3 * error_N, -0.7 * error_N)))


PINBALL = Score(
    "pinball30",
    "30 % pinball loss",
    "lower",
    pinball,
    Beside.DIFFERENCE,
    "{:.3f}".format,
    unit="points",
    quantiles=(0.3,),
)


def everything(config: SweepConfig, folder: Path) -> dict[str, str]:
    """Every text that a sweep and its report leave, by file name."""
    run_sweep(config, folder, load=lambda _: subjects())
    write_report(folder, figures=False)
    return {
        path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()
    }


def header(table: str) -> list[str]:
    return table.splitlines()[0].split(",")


@pytest.fixture
def with_pinball(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SCORES", (*metrics.SCORES, PINBALL))


def test_a_new_score_is_one_entry_and_stands_everywhere(
    toy_config: SweepConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = everything(toy_config, tmp_path / "before")
    monkeypatch.setattr(metrics, "SCORES", (*metrics.SCORES, PINBALL))
    after = everything(toy_config, tmp_path / "after")
    at = header(after["cases.csv"]).index("nll")
    assert header(after["cases.csv"])[at : at + 3] == ["nll", "pinball30", "fit_s"]
    assert {"pinball30_stock", "pinball30_change"} <= set(header(after["summary.csv"]))
    shown = {
        "summary.md": ["30 % pinball loss stock", "30 % pinball loss change, points"],
        "report.md": ["30 % pinball loss stock", "30 % pinball loss change, points"],
        "report.html": ["30 % pinball loss stock", "30 % pinball loss change, points"],
        "summary.tex": [r"30 \% pinball loss stock", r"30 \% pinball loss change, points"],
    }
    assert call(monkeypatch, "report", str(tmp_path / "after"), "--json", "--no-figures") == 0
    told = json.loads(capsys.readouterr().out)["scores"]
    assert told["registry"][-1] == {
        "name": "pinball30",
        "label": "30 % pinball loss",
        "better": "lower",
        "unit": "points",
        "table": "cases.csv",
    }
    for name, labels in shown.items():
        for label in labels:
            assert label in after[name], name
            assert label not in before[name], name
    scored = pd.DataFrame(csv.DictReader(after["cases.csv"].splitlines()))
    stock = scored.loc[scored["variant"] == "stock", "pinball30"].astype(float).mean()
    assert f"| {stock:.3f} |" in after["summary.md"]
    assert told["variants"]["oa"]["pinball30_stock"] == pytest.approx(stock)


def test_terminal_shows_a_new_score(
    with_pinball: None, toy_config: SweepConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from experiments.cli.output import show_summary

    outcome = run_sweep(toy_config, tmp_path, load=lambda _: subjects())
    show_summary(summarise_folder(tmp_path, margin_pct=0.5), outcome, as_json=False)
    assert "30 % pinball loss change, points" in " ".join(capsys.readouterr().out.split())


def test_baselines_lack_scores_of_quantiles_and_have_the_others(
    with_pinball: None, toy_config: SweepConfig, tmp_path: Path
) -> None:
    config = toy_config.model_copy(update={"baselines": True})
    run_sweep(config, tmp_path, load=lambda _: subjects())
    cases = read_cases(tmp_path / "cases.csv").set_index("variant")
    assert cases.loc["ridge", ["rmse", "mae"]].notna().all().all()
    assert cases.loc["ridge", ["nll", "pinball30"]].isna().all().all()
    assert cases.loc["stock", "pinball30"].notna().all()
    assert "ridge" not in (tmp_path / "coverage.csv").read_text()


def test_a_table_that_is_older_than_a_score_can_be_read(
    toy_config: SweepConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything(toy_config, tmp_path)
    known = read_cases(tmp_path / "cases.csv")
    monkeypatch.setattr(metrics, "SCORES", (*metrics.SCORES, PINBALL))
    read = read_cases(tmp_path / "cases.csv")
    assert read["pinball30"].isna().all()
    pd.testing.assert_frame_equal(read.drop(columns="pinball30"), known)
    (change, _) = summarise_folder(tmp_path, margin_pct=0.5).scores
    assert np.isnan(change.figures["pinball30_stock"])
    assert np.isfinite(change.figures["mae_pct"])
    # The twin: a score that every table has had is not simply left out.
    table = pd.read_csv(tmp_path / "cases.csv", dtype=str, keep_default_na=False)
    table.drop(columns="nll").to_csv(tmp_path / "cases.csv", index=False)
    with pytest.raises(ResultsError, match="no column nll"):
        read_cases(tmp_path / "cases.csv")


def test_a_score_can_have_a_table_of_its_own(
    toy_config: SweepConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = dataclasses.replace(PINBALL, table=metrics.COVERAGE)
    monkeypatch.setattr(metrics, "SCORES", (*metrics.SCORES, beside))
    after = everything(toy_config, tmp_path)
    assert "pinball30" not in header(after["cases.csv"])
    assert header(after["coverage.csv"])[-2:] == ["coverage80", "pinball30"]
    assert "30 % pinball loss stock" in after["summary.md"]
