"""The main job from Python: the command's own rows, and nothing heavy before they are asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from command_line import call
from fakes import FakeModel, toy_frame

import experiments
from experiments.errors import ConfigError, DataError, ResultsError
from experiments.sweep.schema import TIMING_COLUMNS

CASE = {"variants": ("stock", "oa"), "seeds": (3,), "n_estimators": 1, "tau": 1e-3, "threads": 1}


def untimed(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.drop(columns=list(TIMING_COLUMNS))


def test_rows_are_those_of_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toy_frame(24, 1).to_csv(tmp_path / "mine.csv", index=False)
    config = tmp_path / "one.yaml"
    config.write_text("suite: x\ndatasets: [ames]\nseeds: [1]\nn_estimators: 1\n")
    path, out = str(tmp_path / "mine.csv"), tmp_path / "out"
    command = ["--data", path, "--target", "y", "--variants", "stock,oa", "--seeds", "3", "-q"]
    more = ["--tau", "1e-3", "--threads", "1", "--out", str(out), "--no-noise-floor"]
    assert call(monkeypatch, "eval", str(config), *command, *more) == 0
    asked = {**CASE, "data": {"path": path, "target": "y"}, "noise_floor": False}
    rows = experiments.evaluate("mini", **asked)
    theirs = experiments.read_results(out)
    pd.testing.assert_frame_equal(untimed(rows), untimed(theirs), check_exact=True)
    assert rows["status"].tolist() == ["ok", "ok"]
    assert rows["suite"].tolist() == ["mine", "mine"]
    other = experiments.evaluate("mini", **{**asked, "tau": 10.0})
    assert other["rmse"][0] == rows["rmse"][0]
    assert other["rmse"][1] != rows["rmse"][1]


def test_a_folder_is_kept_where_one_is_given(toy_yaml: str, tmp_path: Path, fake_load) -> None:
    fake_load()
    rows = experiments.evaluate(config=toy_yaml, out=tmp_path / "o", noise_floor=False)
    assert len(rows) == 2 * 3
    again = experiments.evaluate(config=toy_yaml, out=tmp_path / "o", noise_floor=False)
    pd.testing.assert_frame_equal(again, rows)  # seconds too: nothing was computed again
    pd.testing.assert_frame_equal(experiments.read_results(tmp_path / "o"), rows)
    with pytest.raises(ResultsError, match="does not exist"):
        experiments.read_results(tmp_path / "nothing")


def test_failed_rows_are_warned_of(toy_yaml: str, fake_load) -> None:
    fake_load(oa=FakeModel(error=ValueError("no")), full=FakeModel(0.1))
    with pytest.warns(UserWarning, match="2 rows failed"):
        rows = experiments.evaluate(config=toy_yaml, noise_floor=False)
    assert rows.loc[rows["variant"] == "oa", "error"].str.contains("ValueError: no").all()


def test_data_sets_are_chosen_by_name(toy_yaml: str, fake_load) -> None:
    fake_load()
    rows = experiments.evaluate(config=toy_yaml, data="right", seeds=[5], noise_floor=False)
    assert set(zip(rows["dataset"], rows["seed"], strict=True)) == {("right", 5)}
    both = experiments.evaluate(config=toy_yaml, data=["left", "right"], noise_floor=False)
    assert set(both["dataset"]) == {"left", "right"}


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ({"n_estimator": 2}, ConfigError, "did you mean 'n_estimators'"),
        ({"seeds": [-1]}, ConfigError, "seed -1"),
        ({"variants": ["oa"]}, ConfigError, "must contain 'stock'"),
        ({"data": {"path": "mine.csv"}}, ConfigError, "target"),
        ({"data": "lef"}, DataError, "did you mean left"),
        ({"jobs": 0}, ConfigError, "jobs"),
    ],
)
def test_what_is_wrong_is_said(toy_yaml: str, fake_load, options, error, part: str) -> None:
    fake_load()
    with pytest.raises(error, match=part):
        experiments.evaluate(config=toy_yaml, **options)


def test_importing_is_light() -> None:
    code = (
        "import sys, experiments\n"
        "heavy = {'torch', 'pandas', 'tabpfn', 'sklearn', 'pydantic'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert {'evaluate', 'read_results'} <= set(dir(experiments))\n"
        "experiments.evaluate\n"
        "assert 'pydantic' in sys.modules and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'evaluates'"):
        _ = experiments.evaluates
