"""Every command on narrow consoles, on a full disk behind its output, and with its examples."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import call
from fakes import toy_row
from typer.main import get_command

from experiments.cli import app
from experiments.sweep.schema import columns, to_cells

ODD = "Größe $x|y =1+1 日本"


def names() -> list[tuple[str, ...]]:
    """Every command, groups with their own."""
    found: list[tuple[str, ...]] = []
    for name, command in get_command(app).commands.items():
        inner = getattr(command, "commands", {})
        found += [(name, one) for one in inner] + [(name,)]
    return found


def results(folder: Path) -> Path:
    """A results folder with a data set of an odd name."""
    import csv

    folder.mkdir(parents=True)
    with (folder / "cases.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns())
        rows = [toy_row(ODD, 1, "stock", rmse=2.0), toy_row(ODD, 1, "oa", rmse=2.1)]
        writer.writerows(to_cells(row) for row in rows)
    return folder


@pytest.mark.parametrize("command", names(), ids=" ".join)
def test_help_of_every_command_has_examples_of_that_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert call(monkeypatch, *command, "--help") == 0
    told = capsys.readouterr().out
    assert f"oretro {' '.join(command)}" in told.partition("Examples")[2]


def test_help_of_the_program_has_examples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "--help") == 0
    examples = capsys.readouterr().out.partition("Examples:")[2]
    assert {line.split()[1] for line in examples.splitlines() if line.strip()} <= {
        name for (name, *_) in names()
    }
    assert "oretro eval" in examples


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["data", "list"],
        ["data", "show", "diabetes"],
        ["doctor"],
        ["eval", "--limit", "1", "--dry-run"],
        ["patch", "mini", "--dry-run"],
        ["pretrain", "configs/mini_host_ci.yaml", "--dry-run"],
        ["report", "RESULTS", "--no-figures"],
        ["report", "RESULTS", "--no-figures", "--json"],
        *[[*name, "--help"] for name in names()],
    ],
    ids=" ".join,
)
def test_command_writes_to_a_file_of_any_encoding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encoding: str, arguments: list[str]
) -> None:
    folder = results(tmp_path / "Größe")
    out, err = io.BytesIO(), io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding=encoding))
    # Python itself never fails on stderr, whatever its encoding.
    monkeypatch.setattr(
        sys, "stderr", io.TextIOWrapper(err, encoding=encoding, errors="backslashreplace")
    )
    arguments = [str(folder) if argument == "RESULTS" else argument for argument in arguments]
    status = call(monkeypatch, *arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    assert status == 0, err.getvalue()
    # A stream that claims ASCII gets UTF-8, so that a path on it stays the path of the file.
    assert out.getvalue().decode("utf-8" if encoding == "ascii" else encoding)
    if "--json" in arguments:
        json.loads(out.getvalue())


def test_report_in_the_c_locale_writes_utf8_and_prints_paths(tmp_path: Path) -> None:
    folder = results(tmp_path / "run")
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "experiments.cli", "report", str(folder)]
    with (tmp_path / "out.txt").open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert b"report.html" in (tmp_path / "out.txt").read_bytes()
    assert ODD in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_one_sentence_and_status_1(tmp_path: Path) -> None:
    folder = results(tmp_path / "run")
    command = [sys.executable, "-m", "experiments.cli", "report", str(folder), "--no-figures"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert (folder / "report.html").is_file()


def test_reader_that_goes_away_leaves_no_traceback(tmp_path: Path) -> None:
    folder = results(tmp_path / "run")
    command = [sys.executable, "-m", "experiments.cli", "report", str(folder), "--no-figures"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(writing)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_json_of_a_report_is_all_there_is_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = results(tmp_path / "run")
    assert call(monkeypatch, "report", str(folder), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert {Path(path).name for path in told["files"]} >= {"report.html", "forest.svg"}
    assert told["variants"][0]["mean_pct"] == pytest.approx(5.0)
    assert told["variants"][0]["ci_low_pct"] is None


def test_many_reasons_are_cut_short(capsys: pytest.CaptureFixture[str]) -> None:
    from experiments.cli.output import say_notes

    say_notes([f"row {number}" for number in range(13)], Path("o/cases.csv"))
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 11
    assert told[-1] == "and 3 more such lines in o/cases.csv"
