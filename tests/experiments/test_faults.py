"""What ends a sweep badly costs no finished row: kills, a full disk, torn files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.errors import ResultsError
from experiments.sweep.config import SweepConfig
from experiments.sweep.folder.results import read_cases
from experiments.sweep.run import run_sweep
from experiments.sweep.schema import columns

DRIVER = Path(__file__).parent / "fault_driver.py"
ROOT = Path(__file__).parent.parent.parent


def drive(test: str, folder: Path) -> tuple[Any, str]:
    """What the driver found, and what its sweeps said on stderr."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(DRIVER.parent)))}
    command = [sys.executable, str(DRIVER), test, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_sweep_killed_at_twenty_random_moments_loses_nothing(tmp_path: Path) -> None:
    outcomes, _ = drive("kills", tmp_path)
    assert len(outcomes) == 20
    assert all(outcome["equal"] and not outcome["failed"] for outcome in outcomes), outcomes
    # The moments reach into the sweep: some died half-way, with a different number of rows.
    half_way = {outcome["reused"] for outcome in outcomes if outcome["killed"]}
    assert len(half_way) > 3, outcomes


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are read from /proc")
def test_sweep_with_workers_can_be_killed_and_finished_at_once(tmp_path: Path) -> None:
    outcome, _ = drive("killed_with_workers", tmp_path)
    assert outcome["equal"]
    assert outcome["reused"] >= 2
    assert outcome["workers"] >= 2
    assert outcome["left"] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_second_sweep_on_a_folder_is_told_who_holds_it(tmp_path: Path) -> None:
    outcome, _ = drive("two", tmp_path)
    assert re.match(
        rf"FolderInUseError: .* is being written by process {outcome['first']} on \S+;",
        outcome["told"],
    )
    assert outcome["then"] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_disk_that_fills_up_leaves_whole_files_and_the_sweep_goes_on_later(tmp_path: Path) -> None:
    outcome, stderr = drive("full", tmp_path)
    assert outcome["status"] == 1
    assert "InterruptedWriteError" in stderr
    assert "run the same command again" in stderr
    assert 0 < outcome["rows"] < 72
    assert outcome["whole_lines"]
    assert outcome["rubbish"] == []
    # The row whose table could not be written is in its own file, and counts.
    assert outcome["stored"] == outcome["rows"] + 1
    assert outcome["reused"] >= outcome["stored"]
    assert outcome["equal"]


@pytest.fixture
def finished(toy_config: SweepConfig, tmp_path: Path) -> Path:
    from fakes import load_fakes

    run_sweep(toy_config, tmp_path, load=load_fakes)
    return tmp_path


def damage(kind: str, whole: bytes) -> bytes:
    """The faults that appended tables suffer; rows end at line 13."""
    lines = whole.splitlines(keepends=True)
    foreign = lines[1].replace(b"left", b"elsewhere", 1)
    return {
        "torn last line": whole[:-40],
        "NUL tail": whole[:-40] + b"\0" * 40,
        "torn middle line": b"".join((*lines[:5], lines[5][:30] + b"\n", *lines[6:])),
        "two headers": b"".join((*lines[:7], lines[0], *lines[7:])),
        "foreign row": whole + foreign,
        "row twice": whole + lines[3],
        "empty file": b"",
        "not text": b"\xff\xfe" + whole,
    }[kind]


DAMAGES = {
    "torn last line": "line 13 is damaged: it is cut off.*nothing is recomputed",
    "NUL tail": "line 13 is damaged: it holds NUL bytes",
    "torn middle line": r"line 6 is damaged: it has \d+ cells, the header has 20",
    "two headers": "line 8 is damaged: it is a second header",
    "foreign row": None,
    "row twice": "stands there more than once",
    "empty file": "not a table of cases",
    "not text": "not a table of cases",
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_table_is_refused_by_line_and_remade_without_computing(
    finished: Path, toy_config: SweepConfig, kind: str
) -> None:
    from fakes import load_fakes

    path = finished / "cases.csv"
    whole = path.read_bytes()
    path.write_bytes(damage(kind, whole))
    told = DAMAGES[kind]
    if told is not None:
        with pytest.raises(ResultsError, match=rf"cases\.csv: .*{told}"):
            read_cases(path)
    outcome = run_sweep(toy_config, finished, load=load_fakes)
    assert outcome.computed == 0
    assert path.read_bytes() == whole


@pytest.mark.parametrize("rmse", ["null", "NaN", "Infinity"])
def test_record_without_a_finite_score_is_computed_again(
    finished: Path, toy_config: SweepConfig, rmse: str
) -> None:
    from fakes import load_fakes

    whole = (finished / "cases.csv").read_bytes().splitlines()
    record = finished / "cases" / "left-1-oa.json"
    text = record.read_text()
    record.write_text(re.sub(r'"rmse": [-0-9.e]+', f'"rmse": {rmse}', text))
    assert record.read_text() != text
    outcome = run_sweep(toy_config, finished, load=load_fakes)
    assert (outcome.computed, outcome.failed) == (1, 0)
    again = (finished / "cases.csv").read_bytes().splitlines()
    rmse_cell = columns().index("rmse")
    assert [line.split(b",")[rmse_cell] for line in again] == [
        line.split(b",")[rmse_cell] for line in whole
    ]


def test_half_of_a_pair_is_completed_and_the_other_half_kept(
    finished: Path, toy_config: SweepConfig
) -> None:
    from fakes import load_fakes

    stock = finished / "cases" / "left-1-stock.json"
    kept = stock.read_bytes()
    (finished / "cases" / "left-1-oa.json").unlink()
    outcome = run_sweep(toy_config, finished, load=load_fakes)
    assert outcome.computed == 1
    assert stock.read_bytes() == kept


def test_folder_of_another_suite_is_refused(finished: Path, toy_config: SweepConfig) -> None:
    from fakes import load_fakes

    other = toy_config.model_copy(update={"suite": "other"})
    with pytest.raises(ResultsError, match=r"suite 'toy', not 'other'.*--fresh"):
        run_sweep(other, finished, load=load_fakes)
