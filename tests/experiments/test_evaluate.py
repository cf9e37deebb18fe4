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


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """A table with groups, dates and free text."""
    frame = toy_frame(24, 1)
    days = pd.date_range("2024-01-01", periods=24).strftime("%Y-%m-%d")
    frame = frame.assign(shop=[f"s{row % 5}" for row in range(24)], sold=days)
    frame.assign(said=["good house", "bad flat"] * 12).to_csv(tmp_path / "s.csv", index=False)
    return tmp_path / "s.csv"


@pytest.mark.parametrize(
    ("command", "options", "fields"),
    [
        (["--folds", "3", "--drop", "sold"], {"folds": 3}, {"drop": ["sold"]}),
        (
            ["--group-column", "shop", "--drop", "sold"],
            {"group_column": "shop"},
            {"drop": ["sold"]},
        ),
        (
            ["--time-column", "sold", "--folds", "2", "--keep-split-column", "--dates", "parts"],
            {"time_column": "sold", "folds": 2, "keep_split_column": True},
            {"dates": "parts"},
        ),
        (
            ["--dates", "parts", "--text", "said", "--metric", "neg_max_error"],
            {"metric": ["neg_max_error"]},
            {"dates": "parts", "text": ["said"]},
        ),
        (
            ["--save-predictions", "--drop", "sold", "--test-fraction", "0.5"],
            {"save_predictions": True, "test_fraction": 0.5},
            {"drop": ["sold"]},
        ),
    ],
    ids=["folds", "groups", "time", "dates, text, metric", "predictions"],
)
def test_options_give_the_rows_of_the_command(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    sales: Path,
    fake_load,
    command: list[str],
    options: dict[str, object],
    fields: dict[str, object],
) -> None:
    fake_load()
    asked = ["eval", "--data", str(sales), "--target", "y", "--no-noise-floor", "-q"]
    outs = [str(tmp_path / name) for name in ("there", "here")]
    assert call(monkeypatch, *asked, "--out", outs[0], *command) == 0
    data = {"path": sales, "target": "y", **fields}
    rows = experiments.evaluate(data=data, noise_floor=False, out=outs[1], **options)
    theirs = experiments.read_results(outs[0])
    pd.testing.assert_frame_equal(untimed(rows), untimed(theirs), check_exact=True)
    for name in ("metrics.csv", "predictions.parquet"):
        files = [Path(out, name) for out in outs]
        assert files[0].exists() is files[1].exists()
        if files[0].exists():
            assert files[0].read_bytes() == files[1].read_bytes()


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
