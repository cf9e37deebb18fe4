"""Two results folders side by side: the same rows, the changes, and what else differs."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import call
from fakes import FakeModel, subjects
from sweeping import sweep

from experiments.errors import ResultsError
from experiments.report.compare import compare
from experiments.sweep.config import SweepConfig


@pytest.fixture
def runs(toy_config: SweepConfig, tmp_path: Path) -> tuple[Path, Path]:
    """A: seeds 1 and 2 of both tables; B: another patch, a setting, seed 2 alone."""
    sweep(toy_config, tmp_path / "a")
    other = toy_config.model_copy(update={"seeds": (2,), "n_estimators": 3})
    changed = subjects(oa=FakeModel(0.3), full=FakeModel(-0.02))
    sweep(other, tmp_path / "b", changed)
    return tmp_path / "a", tmp_path / "b"


def test_rows_are_paired_and_changes_are_relative(runs: tuple[Path, Path]) -> None:
    found = compare(*runs)
    assert {(row["dataset"], row["seed"]) for row in found.cases} == {("left", 2), ("right", 2)}
    assert found.other_cases == 2 * 3
    tables = [
        pd.read_csv(run / "cases.csv").set_index(["dataset", "seed", "variant"]) for run in runs
    ]
    for row in found.cases:
        key = (row["dataset"], row["seed"], row["variant"])
        a, b = (float(table.loc[key, "rmse"]) for table in tables)
        assert (row["rmse_a"], row["rmse_b"]) == (a, b)
        assert row["change_pct"] == pytest.approx(100 * (b - a) / a, abs=1e-9)
        assert (row["change_pct"] == 0) is (row["variant"] != "oa")
    assert [(item["variant"], item["cases"]) for item in found.means] == [
        ("stock", 2),
        ("oa", 2),
        ("full", 2),
    ]


def test_what_differs_is_named_and_nothing_else(runs: tuple[Path, Path]) -> None:
    names = {item.what: (item.a, item.b) for item in compare(*runs).differences}
    assert names == {"config.seeds": ("[1, 2]", "[2]"), "config.n_estimators": ("8", "3")}
    assert compare(runs[0], runs[0]).differences == ()


def test_hosts_and_data_that_differ_are_named(toy_config: SweepConfig, tmp_path: Path) -> None:
    from fakes import FakeHost

    sweep(toy_config, tmp_path / "a")
    host = FakeHost(sha256="0" * 64)
    sweep(toy_config, tmp_path / "b", subjects(host))
    table = {item.what for item in compare(tmp_path / "a", tmp_path / "b").differences}
    assert table >= {"host.sha256", "host_sha256 of left"}
    half = toy_config.model_copy(update={"test_fraction": 0.5})
    sweep(half, tmp_path / "c")
    table = {item.what for item in compare(tmp_path / "a", tmp_path / "c").differences}
    assert table == {
        "config.test_fraction",
        *(f"{what} of {name}" for what in ("n_train", "n_test") for name in ("left", "right")),
    }


def test_runs_without_a_common_case_are_refused(toy_config: SweepConfig, tmp_path: Path) -> None:
    sweep(toy_config.model_copy(update={"datasets": ("left",)}), tmp_path / "a")
    sweep(toy_config.model_copy(update={"datasets": ("right",)}), tmp_path / "b")
    with pytest.raises(ResultsError, match="no scored case in common: the one has left, the other"):
        compare(tmp_path / "a", tmp_path / "b")
    with pytest.raises(ResultsError, match="does not exist"):
        compare(tmp_path / "a", tmp_path / "nowhere")


def test_the_command_holds_80_columns_and_writes_files(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    runs: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "compare", "a", "b", "--out", "c.csv") == 0
    shown = capsys.readouterr()
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "config.n_estimators" in shown.out
    assert "6 row(s) are not scored in both" in shown.err
    table = pd.read_csv("c.csv")
    assert table["rmse_a"].tolist() == [row["rmse_a"] for row in compare(*runs).cases]
    assert call(monkeypatch, "compare", "a", "b", "--out", "c.md", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["cases"]) == len(table) == 6
    assert "| config.n" in Path("c.md").read_text()
    for out, told in (("c.csv", "exists"), ("c.txt", ".csv or .md"), ("no/c.csv", "not exist")):
        assert call(monkeypatch, "compare", "a", "b", "--out", out) == 2
        assert told in capsys.readouterr().err
    assert call(monkeypatch, "compare", "a", "b", "--out", "c.csv", "--overwrite") == 0


def test_a_built_in_host_is_called_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = Path(__file__).parents[2] / "results"
    folders = [str(results / name) for name in ("packaged18-mini", "packaged18_p99-mini")]
    assert call(monkeypatch, "compare", *folders) == 0
    shown = capsys.readouterr().out
    assert "not Prior Labs'" in shown
    assert "config.target_presence" in shown
    assert max(len(line) for line in shown.splitlines() if "Prior" not in line) <= 80
