"""Commands where the environment is odd: no home, closed streams, broken packages, other names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from command_line import call
from fakes import FakeModel
from test_console import results

ROOT = Path(__file__).parents[2]
NO_HOME = """
import os, pwd, sys
os.environ.pop("HOME", None)
def none(uid):
    raise KeyError(uid)
pwd.getpwuid = none
from experiments.cli import main
main()
"""


def python(code: str, *arguments: str, cwd: Path, **environment: str):
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=cwd)


MAIN = "from experiments.cli import main; main()"


@pytest.mark.skipif(os.name == "nt", reason="accounts without a home are a matter of POSIX")
def test_account_without_a_home_is_told_to_set_it_and_the_doctor_goes_on(tmp_path: Path) -> None:
    done = python(NO_HOME, "doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)
    assert findings["versions"]["oretro"]
    assert "home directory" in findings["hosts"]["cannot be told"]
    done = python(NO_HOME, "patch", "mini", "--dry-run", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "set HOME to a folder" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["eval", "--data", "~nosuchuser/x.csv", "--target", "y", "--dry-run"],
        ["eval", "--host", "~nosuchuser/m.ckpt", "--limit", "1", "--dry-run"],
        ["patch", "~nosuchuser/m.ckpt", "--dry-run"],
        ["report", "~nosuchuser/run"],
    ],
    ids=" ".join,
)
def test_home_of_nobody_and_paths_that_are_none_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert "\0" not in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("backend", ["module://matplotlib_inline.nowhere"])
def test_figures_need_no_backend_and_nobodys_settings(tmp_path: Path, backend: str) -> None:
    folder = results(tmp_path / "run")
    (tmp_path / "rc").write_text("font.size: 30\nlines.linewidth: 9\naxes.titlesize: 40\n")
    odd = {"MPLBACKEND": backend, "MATPLOTLIBRC": str(tmp_path / "rc")}
    done = python(MAIN, "report", str(folder), "--out", str(tmp_path / "odd"), cwd=tmp_path, **odd)
    assert done.returncode == 0, done.stderr
    done = python(MAIN, "report", str(folder), "--out", str(tmp_path / "plain"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    pictures = sorted(path.name for path in (tmp_path / "odd" / "figures").iterdir())
    assert pictures == ["forest.png", "forest.svg"]
    for name in pictures:
        ours, plain = (tmp_path / where / "figures" / name for where in ("odd", "plain"))
        assert ours.read_bytes() == plain.read_bytes()


@pytest.mark.skipif(shutil.which("sh") is None, reason="streams are closed by a shell")
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&- <&-"])
def test_closed_streams_lose_nothing(tmp_path: Path, closed: str) -> None:
    folder = results(tmp_path / "run")
    command = f'"{sys.executable}" -m experiments.cli report run --no-figures {closed}'
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, env=env, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")
    assert "report.html" not in page


def test_console_script_runs_beside_a_package_of_the_users_that_has_our_name(
    tmp_path: Path,
) -> None:
    site = tmp_path / "site"
    only_code = shutil.ignore_patterns("__pycache__", "assets")
    for name in ("experiments", "retrofit"):
        shutil.copytree(ROOT / name, site / name, ignore=only_code)
    shutil.copy(ROOT / "oretro.py", site)
    mine = tmp_path / "project" / "experiments"
    mine.mkdir(parents=True)
    (mine / "__init__.py").write_text("raise ImportError('mine')\n")
    paths = os.pathsep.join((str(mine.parent), str(site)))
    code = "import sys; from oretro import main; sys.argv[0] = 'oretro'; main()"
    for arguments in (["data", "list"], ["--help"]):
        done = python(code, *arguments, cwd=mine.parent, PYTHONPATH=paths)
        assert done.returncode == 0, done.stderr
        assert "diabetes" in done.stdout or "Usage" in done.stdout
    # The twin: without the script's care it is the user's package that is found.
    done = python(MAIN, "--help", cwd=mine.parent, PYTHONPATH=paths)
    assert "ImportError: mine" in done.stderr


def test_without_such_a_package_the_path_of_modules_is_left_alone() -> None:
    code = (
        "import sys; before = list(sys.path); import oretro; oretro._put_own_packages_first(); "
        "assert sys.path == before"
    )
    done = python(code, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("raise ImportError('needs libfoo')", "not usable: ImportError: needs libfoo"),
        ("__version__ = '1.0.0'", "not usable: ImportError"),
        ("raise ModuleNotFoundError('gone', name='gone')", "broken: ModuleNotFoundError: gone"),
        (None, "not installed; run: pip install pyarrow"),
    ],
)
def test_doctor_names_an_optional_package_that_cannot_be_used_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, told: str
) -> None:
    from experiments.machine.diagnosis import diagnose

    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    if text is None:
        gone = ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

        def find(name: str) -> object:
            if name == "pyarrow":
                raise gone
            return __import__(name)

        monkeypatch.setattr("experiments.machine.diagnosis.import_module", find)
    else:
        (tmp_path / "pyarrow.py").write_text(text + "\n")
        monkeypatch.syspath_prepend(str(tmp_path))
    findings = diagnose()
    assert findings["optional packages"]["pyarrow (parquet files)"].startswith(told)
    assert findings["optional packages"]["matplotlib (figures)"][0].isdigit()
    assert findings["machine"]["cores"]
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)


@pytest.mark.parametrize("old", [False, True], ids=["absent", "too old"])
def test_parquet_without_a_usable_pyarrow_does_not_blame_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, old: bool
) -> None:
    from types import ModuleType

    path = tmp_path / "t.parquet"
    pd.DataFrame({"x": range(9), "y": range(9)}).to_parquet(path)
    module = ModuleType("pyarrow")
    module.__version__ = "1.0.0"
    monkeypatch.setitem(sys.modules, "pyarrow", module if old else None)
    arguments = ["--data", str(path), "--target", "y", "--dry-run"]
    assert call(monkeypatch, "eval", *arguments) == 2
    told = capsys.readouterr().err
    assert "no usable pyarrow is installed here" in told
    assert "not a whole parquet file" not in told


@pytest.mark.parametrize(
    "command",
    [
        ["eval", "--limit", "1"],
        ["eval", "--limit", "1", "--dry-run"],
        ["bench", "--out", "o"],
        ["bench-tables", "--out", "o"],
    ],
    ids=" ".join,
)
def test_more_threads_than_the_machine_has_are_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *command, "--threads", "1000000") == 2
    assert "threads: 1000000 are more than the" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_is_odd_about_a_table_is_on_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, fake_load
) -> None:
    fake_load()
    rows = "".join(f"{n / 7},{'?' if n == 3 else n},id{n},{n % 5}\n" for n in range(12))
    (tmp_path / "t.csv").write_text("x,gap,label,y\n" + rows + "1,2,id99,\n")
    table = ["--data", str(tmp_path / "t.csv"), "--target", "y", "--seeds", "1"]
    expected = ("without a target value left out", "column 'label'")
    for arguments in (["--dry-run"], ["-q", "--out", str(tmp_path / "o")]):
        assert call(monkeypatch, "eval", *table, *arguments) == 0
        captured = capsys.readouterr()
        told = captured.out if "--dry-run" in arguments else captured.err
        for note in expected:
            assert f"t: {note}" in told or note in told
    for arguments in (["--dry-run", "--json"], ["-q", "--json", "--out", str(tmp_path / "o")]):
        assert call(monkeypatch, "eval", *table, *arguments) == 0
        notes = json.loads(capsys.readouterr().out)["data_notes"]
        for note in expected:
            assert any(note in line for line in notes)


def test_command_whose_host_ends_the_program_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def leave(*_: object, **__: object) -> None:
        sys.exit(0)

    monkeypatch.setattr("retrofit.describe_host", leave)
    assert call(monkeypatch, "patch", "mini", "--dry-run") == 1
    assert "ended the program (sys.exit(0))" in capsys.readouterr().err


def test_sweep_whose_host_ends_the_program_exits_1(
    monkeypatch: pytest.MonkeyPatch, toy_yaml: str, tmp_path: Path, fake_load
) -> None:
    fake_load(oa=FakeModel(error=SystemExit(0)), full=FakeModel(0.1))
    assert call(monkeypatch, "eval", toy_yaml, "--out", str(tmp_path / "out"), "-q") == 1
