"""``oretro calibrate``, and ``oretro patch`` with its file, with tables of the user's, with eps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import call

import retrofit
from experiments.cli import main
from retrofit import CalibrationTable

ROWS = "".join(f"{i},{(7 * i) % 11},{'a' if i % 3 else 'b'},{2 * i + i % 5}\n" for i in range(24))
TEXT = "size,rooms,kind,price\n" + ROWS


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options that name a table with one column of text, which is asked to be left out."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text(TEXT)
    return ["--table", "mine.csv", "--target", "price", "--drop", "kind"]


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr(retrofit, "load_host", refuse)


def in_memory() -> CalibrationTable:
    """The same table without a file."""
    i = np.arange(24)
    return CalibrationTable("mine", np.stack([i, (7 * i) % 11], axis=1), 2 * i + i % 5)


def test_file_of_calibrate_patches_like_the_target_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mine: list[str]
) -> None:
    host = ["mini", "--variant", "oa"]
    target = ["--target-presence", "0.99"]
    assert call(monkeypatch, "calibrate", *host, *target, *mine, "--out", "tau.json", "--json") == 0
    captured = capsys.readouterr()
    shown = json.loads(captured.out)
    assert "measuring 18 streams" in captured.err
    assert "not Prior Labs" in captured.err
    assert "wrote tau.json" in captured.err
    assert shown["written"] == "tau.json"
    assert shown["host"]["built_in"] is True

    loaded = retrofit.load_host("mini")
    expected = retrofit.patch(
        loaded, "oa", target_presence=0.99, tables=[in_memory()]
    ).report.to_dict()
    (measured,) = shown["targets"]
    assert {item["name"]: item["tau"] for item in measured["streams"]} == expected["config"]["tau"]
    assert shown["tables"] == expected["tau_tables"]

    assert call(monkeypatch, "patch", *host, "--tau", "tau.json", *mine, "--json") == 0
    through_file = json.loads(capsys.readouterr().out)
    assert call(monkeypatch, "patch", *host, *target, *mine, "--json") == 0
    direct = json.loads(capsys.readouterr().out)
    assert through_file == direct == {**expected, "written": None}
    assert (
        retrofit.patch(loaded, "oa", tables=[in_memory()]).config.tau != (expected["config"]["tau"])
    )


def test_targets_stand_side_by_side_with_their_null_radius(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mine: list[str]
) -> None:
    targets = ["--target-presence", "0.9", "--target-presence", "0.999"]
    command = ["calibrate", "mini", "--variant", "oa", *targets, *mine, "--quiet"]
    assert call(monkeypatch, *command) == 0
    captured = capsys.readouterr()
    for column in ("tau @0.9 ", "null radius @0.9 ", "tau @0.999 ", "null radius @0.999"):
        assert column in captured.out
    assert "measuring" not in captured.err
    assert "not Prior Labs" in captured.err
    assert call(monkeypatch, *command, "--json") == 0
    loose, tight = json.loads(capsys.readouterr().out)["targets"]
    assert [loose["target_presence"], tight["target_presence"]] == [0.9, 0.999]
    # tau = q (1 - t) / t, so a laxer target has 111 times the tau, and its root in radius.
    ratio = (0.1 / 0.9) / (0.001 / 0.999)
    for wide, narrow in zip(loose["streams"], tight["streams"], strict=True):
        assert wide["tau"] / narrow["tau"] == pytest.approx(ratio, rel=1e-3)
        assert wide["null_radius"] / narrow["null_radius"] == pytest.approx(ratio**0.5, rel=1e-3)
    assert call(monkeypatch, *command, "--out", "tau.json") == 2
    assert "one --target-presence" in capsys.readouterr().err
    assert not Path("tau.json").exists()


def test_eps_and_tables_of_a_patch_are_in_its_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mine: list[str]
) -> None:
    eps = ["--eps-den", "1e-5", "--eps-mode", "relative"]
    command = ["patch", "mini", "--variant", "oa", "--tau", "1e-3", *mine, *eps]
    assert call(monkeypatch, *command, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["config"]["eps_den"], report["config"]["eps_mode"]) == (1e-5, "relative")
    assert [item["name"] for item in report["tables"]] == ["mine"]
    assert report["tau_tables"] == []
    # Relative to the largest term, eps takes at most eps / (1 + eps) of a receiver's mass.
    assert all(0 < site["eps_share"] <= 1e-5 for site in report["sites"])
    assert call(monkeypatch, *command) == 0
    assert "tau as given; eps_den 1e-05, relative" in capsys.readouterr().out
    assert call(monkeypatch, *command[:-2], "--json") == 0
    absolute = json.loads(capsys.readouterr().out)
    assert absolute["config"]["eps_mode"] == "absolute"
    assert any(site["eps_share"] > 1e-5 for site in absolute["sites"])


def test_parquet_is_the_same_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mine: list[str]
) -> None:
    pd.read_csv("mine.csv").to_parquet("mine.parquet")
    found = []
    for name in ("mine.csv", "mine.parquet"):
        table = ["--table", name, *mine[2:]]
        assert call(monkeypatch, "calibrate", "mini", "--dry-run", "--json", *table) == 0
        found.append(json.loads(capsys.readouterr().out)["tables"])
    assert found[0] == found[1]


def test_dry_run_checks_everything_and_reads_no_weight(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mine: list[str],
    no_weights: None,
) -> None:
    more = ["--table", "mine.csv", "--table", "mine.csv", "--drop", "kind"]
    targets = ["--target", "price", "--target", "rooms"]
    command = ["calibrate", "mini", "--dry-run", "--out", "tau.json", *more, *targets]
    assert call(monkeypatch, *command, "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["streams"]) == 34
    assert len({item["sha256"] for item in plan["tables"]}) == 2
    assert not Path("tau.json").exists()
    assert call(monkeypatch, "calibrate", "mini", "--dry-run") == 0
    assert "synthetic-0-2" in capsys.readouterr().out


def foreign_file(path: Path, **changes: object) -> None:
    """A calibration with a right digest of a host, or of streams, that are others."""
    from retrofit.hosts.report import StreamReport, TableRecord

    description = retrofit.describe_host("mini")
    names = retrofit.plan("mini", "oa").streams
    fields = {
        "variant": "oa",
        "target_presence": 0.99,
        "host_name": "mini",
        "host_sha256": description.sha256,
        "streams": [StreamReport.of(name, 0.1, np.ones(3)) for name in names],
        "tables": [TableRecord("t", 3, 1, "0" * 64)],
        "versions": {},
    }
    retrofit.Calibration(**{**fields, **changes}).save(path)


def test_calibration_of_another_host_or_variant_is_refused_by_its_file(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    no_weights: None,
) -> None:
    monkeypatch.chdir(tmp_path)
    foreign_file(Path("right.json"))
    foreign_file(Path("other.json"), host_sha256="f" * 64, host_name="theirs")
    command = ["patch", "mini", "--variant", "oa", "--dry-run"]
    assert call(monkeypatch, *command, "--tau", "right.json") == 0
    capsys.readouterr()
    refused = {
        ("other.json", "oa"): "other.json belongs to host 'theirs'",
        ("right.json", "full"): "right.json was made for variant 'oa'",
    }
    for (name, variant), told in refused.items():
        command = ["patch", "mini", "--variant", variant, "--tau", name]
        for more in ([], ["--dry-run"]):
            assert call(monkeypatch, *command, *more) == 2
            captured = capsys.readouterr()
            assert told in captured.err
            assert f"oretro calibrate mini --variant {variant}" in captured.err
            assert captured.out == ""


@pytest.mark.parametrize("command", ["calibrate", "patch"])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--table", "mine.csv", "--target", "price"], "hold text: 'kind'; turn them into numbers"),
        (["--table", "mine.csv"], "--target COLUMN"),
        (["--target", "price"], "--target: only with --table FILE"),
        (["--table", "mine.csv", "--target", "prize", "--drop", "kind"], "did you mean price"),
        (["--table", "mine.csv", "--target", "kind"], "'b', which is not a number"),
        (["--table", "mine.csv", "--target", "price", "--drop", "kinds"], "no column 'kinds'"),
        (["--table", "gone.csv", "--target", "price"], "there is no file gone.csv"),
        (["--table", "mine.csv", "--target", "a", "--target", "b"], "1 --table and 2 --target"),
        (["--table", "mine.csv", "--target", ""], "--target ''"),
        (["--table", "mine.csv", "--target", "price", "--decimal", ";"], "--decimal ';'"),
        (["--target-presence", "1.5"], "strictly between 0 and 1"),
        (["--variant", "half"], "no variant 'half'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_used_is_one_sentence_and_exit_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mine: list[str],
    command: str,
    options: list[str],
    told: str,
) -> None:
    assert call(monkeypatch, command, "mini", *options) == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--tau", "tau.json"], "tau.json cannot be read (No such file"),
        (["--tau", "mine.csv"], "mine.csv is cut, damaged, or no calibration"),
        (["--tau", "1", "--target-presence", "0.9"], "not both"),
        (["--tau", "nan"], "--tau nan: must be positive"),
        (["--eps-den", "-1"], "--eps-den"),
        (["--eps-mode", "often"], "--eps-mode"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_tau_and_eps_that_cannot_be_used_exit_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mine: list[str],
    options: list[str],
    told: str,
) -> None:
    assert call(monkeypatch, "patch", "mini", *options) == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.out == ""


def test_output_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    no_weights: None,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tau.json").write_text("mine")
    refused = {
        "tau.json": "tau.json exists",
        "gone/tau.json": "gone does not exist",
        "tau": "ends in .json",
    }
    for name, told in refused.items():
        assert call(monkeypatch, "calibrate", "mini", "--out", name) == 2
        assert told in capsys.readouterr().err
    assert Path("tau.json").read_text() == "mine"
    assert call(monkeypatch, "patch", "mini", "--output", "gone/v3.safetensors") == 2
    assert "gone does not exist" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["oretro", "calibrate", "mini", "--out", "new.json"])
    with pytest.raises(AssertionError, match="weights were read"):
        main()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--tau", "-1"], "--tau -1: must be positive and finite"),
        (["--tau", "nan"], "--tau nan: must be positive and finite"),
        (["--eps-den", "inf"], "--eps-den inf: must be finite"),
        (["--target-presence", "7"], "target_presence is 7.0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_dry_run_refuses_the_values_that_a_run_would(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_weights: None,
    options: list[str],
    told: str,
) -> None:
    assert call(monkeypatch, "patch", "mini", *options, "--dry-run") == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.out == ""
