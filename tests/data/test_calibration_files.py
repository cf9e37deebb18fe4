"""One check of a table: what no host can be fitted on is a sentence from every command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import call

import retrofit
from retrofit import CalibrationTable
from retrofit.errors import CalibrationError
from retrofit.patching.target_range import MAX_TARGET, MIN_TARGET_SPREAD

ROWS = 30
RNG = np.random.default_rng(4)
FRAME = pd.DataFrame({"a": RNG.normal(size=ROWS), "b": RNG.normal(size=ROWS)})
Y = (FRAME["a"] + RNG.normal(size=ROWS)).to_numpy()

TARGETS = {
    "huge": (Y * 1e200, "reaches"),
    "beyond the limit": (np.sign(Y) * MAX_TARGET * 1.01, "beyond 1e\\+30"),
    "tiny": (Y * 1e-22, "differ by"),
    "below the limit": (Y / np.ptp(Y) * MIN_TARGET_SPREAD * 0.99, "below 1e-13"),
    "tiny around one": (1 + np.arange(ROWS) * 2e-16, "differ by"),
}
CONSTANT = {
    "constant": np.full(ROWS, 5.0),
    "constant where it is fitted": np.where(np.arange(ROWS) < 25, 5.0, Y),
}
GOOD = {
    "plain": Y,
    "within the limit": Y / np.abs(Y).max() * MAX_TARGET,
    "above the limit": Y / np.ptp(Y[:21]) * MIN_TARGET_SPREAD * 1.01,
    "constant behind": np.where(np.arange(ROWS) < 25, Y, 5.0),
}


def arguments(command: str) -> list[str]:
    if command == "eval":
        return ["eval", "--data", "t.csv", "--target", "y", "--seeds", "1"]
    return [command, "mini", "--variant", "oa", "--table", "t.csv", "--target", "y"]


@pytest.mark.parametrize("command", ["calibrate", "patch"])
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["run", "dry run"])
@pytest.mark.parametrize("kind", [*TARGETS, *CONSTANT])
def test_unusable_target_is_refused_before_a_host_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path, command: str, more, kind: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a host was loaded")

    monkeypatch.setattr(retrofit, "load_host", refuse)
    monkeypatch.chdir(tmp_path)
    y, told = TARGETS[kind] if kind in TARGETS else (CONSTANT[kind], "first 21 targets")
    FRAME.assign(y=y).to_csv("t.csv", index=False)
    assert call(monkeypatch, *arguments(command), *more) == 2
    captured = capsys.readouterr()
    *notes, error = captured.err.splitlines()
    assert error.startswith("error: calibration table 't': ")
    assert told.replace("\\", "") in error
    assert all(note.startswith("t.csv: ") for note in notes)
    assert captured.out == ""
    with pytest.raises(CalibrationError, match=told):
        retrofit.patching.calibrate.record(CalibrationTable("t", FRAME.to_numpy(), y))


@pytest.mark.parametrize("kind", GOOD)
def test_usable_target_passes(kind: str) -> None:
    table = CalibrationTable("t", FRAME.to_numpy(), GOOD[kind])
    assert retrofit.patching.calibrate.record(table).rows == ROWS


@pytest.mark.parametrize("kind", [*TARGETS, "plain"])
def test_dry_run_of_a_comparison_says_that_its_rows_will_fail(
    monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    FRAME.assign(y=TARGETS[kind][0] if kind in TARGETS else Y).to_csv("t.csv", index=False)
    assert call(monkeypatch, *arguments("eval"), "--dry-run", "--json") == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    assert case["remark"].startswith("target range: ") == (kind != "plain")


@pytest.mark.parametrize("command", ["calibrate", "patch"])
@pytest.mark.parametrize("cell", [1.0, np.nan], ids=["constant", "empty"])
def test_features_that_tell_nothing_are_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path, command: str, cell: float
) -> None:
    monkeypatch.chdir(tmp_path)
    FRAME.assign(a=cell, b=cell, y=Y).to_csv("t.csv", index=False)
    assert call(monkeypatch, *arguments(command)) == 2
    captured = capsys.readouterr()
    assert "error: calibration table 't': tabpfn refuses it: All features are constant" in (
        captured.err
    )
    assert "Traceback" not in captured.err
    assert captured.out == ""
