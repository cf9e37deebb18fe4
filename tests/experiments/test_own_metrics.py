"""scikit-learn's scorers by name: in every output, and equal to what scikit-learn says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import call
from fakes import subjects
from sklearn.metrics import max_error, median_absolute_error
from sweeping import rows, sweep

from experiments.errors import ConfigError, ResultsError
from experiments.report.report import write_report
from experiments.sweep.config import SweepConfig, load_config
from experiments.sweep.metrics import Prediction, score

NAMES = ("neg_median_absolute_error", "neg_max_error")


def test_a_scorer_stands_in_every_output(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    toy_yaml: str,
    tmp_path: Path,
    fake_load,
) -> None:
    fake_load()
    out = tmp_path / "out"
    asked = [part for name in NAMES for part in ("--metric", name)]
    command = ["eval", toy_yaml, "--out", str(out), "-q", *asked]
    assert call(monkeypatch, *command, "--json") == 0
    shown = json.loads(capsys.readouterr().out)["scores"]
    assert {entry["name"] for entry in shown["registry"]} >= set(NAMES)
    assert shown["variants"]["oa"]["neg_max_error_pct"] != 0
    assert call(monkeypatch, *command) == 0
    assert "max_error change" in capsys.readouterr().out
    write_report(out, figures=False)
    for name in ("metrics.csv", "summary.csv"):
        assert all(metric in (out / name).read_text() for metric in NAMES), name
    for name in ("summary.md", "report.html", "report.md"):
        assert "max_error change" in (out / name).read_text(), name
    assert r"max\_error change" in (out / "summary.tex").read_text()
    assert json.loads((out / "run.json").read_text())["config"]["metric"] == list(NAMES)
    table = pd.read_csv(out / "metrics.csv")
    assert len(table) == 2 * 3
    # An error's change is in percent of stock's, and above 0 where the error is larger.
    by = table.set_index(["variant", "dataset"])["neg_max_error"]
    wanted = 100 * (by["oa"] / by["stock"] - 1).mean()
    assert shown["variants"]["oa"]["neg_max_error_pct"] == pytest.approx(wanted, rel=1e-9)
    # The twin: without the option nothing of it is there.
    assert call(monkeypatch, "eval", toy_yaml, "--out", str(tmp_path / "plain"), "-q") == 0
    assert not (tmp_path / "plain" / "metrics.csv").exists()
    assert "max_error" not in capsys.readouterr().out


def test_the_figure_is_scikit_learns() -> None:
    y_N, mean_N = np.array([1.0, 2.0, 4.0, 9.0]), np.array([1.5, 2.0, 3.0, 11.0])
    found = score(Prediction(mean_N, 0.0), y_N, NAMES)
    assert found["neg_median_absolute_error"] == -median_absolute_error(y_N, mean_N)
    assert found["neg_max_error"] == -max_error(y_N, mean_N) == -2.0
    assert (
        score(Prediction(mean_N, 0.0), y_N, ["r2"])["r2"]
        == score(Prediction(mean_N, 0.0), y_N)["r2"]
    )


def test_a_score_that_is_not_defined_is_said_and_fails_nothing(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    config = toy_config.model_copy(update={"metric": ("neg_mean_gamma_deviance",)})
    sweep(config, tmp_path)
    row = rows(tmp_path)["left", 1, "stock"]
    assert row["status"] == "ok"
    assert row["error"] == "not defined on these targets: neg_mean_gamma_deviance"


def test_another_metric_is_another_run(toy_config: SweepConfig, tmp_path: Path) -> None:
    config = toy_config.model_copy(update={"metric": NAMES})
    assert sweep(config, tmp_path).computed > 0
    assert sweep(config, tmp_path).computed == 0
    with pytest.raises(ResultsError, match="metric"):
        sweep(toy_config, tmp_path, subjects())


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("neg_mean_absolut_error", "did you mean neg_mean_absolute_error"),
        ("median_absolute", "did you mean .*neg_median_absolute_error"),
        ("accuracy", "'accuracy' does not score a regression"),
        ("roc_auc", "'roc_auc' does not score a regression"),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_config("packaged18", {"metric": [name]})
