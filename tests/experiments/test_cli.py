"""The command line: quick to answer, truthful in its exit status, clean on stdout."""

from __future__ import annotations

import io
import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from command_line import call, run
from typer.main import get_command

from experiments.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parent.parent.parent / "pyproject.toml"
HEAVY = {"torch", "tabpfn", "pandas", "numpy", "scipy", "sklearn", "yaml", "retrofit"}


def test_help_answers_in_half_a_second() -> None:
    # Processor time, so that a busy machine does not decide.
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.5, times


def test_help_and_command_line_errors_import_nothing_heavy() -> None:
    code = (
        "import sys, experiments.cli as cli\n"
        "sys.argv = ['oretro', 'eval', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "Examples" in done.stdout


def test_evaluation_side_imports_neither_torch_nor_tabpfn() -> None:
    code = (
        "import sys, experiments.report.tables, experiments.report.stats, "
        "experiments.report.summary, "
        "experiments.report.markdown, experiments.sweep.folder.results\n"
        "print(sorted({'torch', 'tabpfn', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


COMMANDS = [
    info.name
    for info in (*app.registered_commands, *app.registered_groups)
    if info.name is not None
]


def test_commands_of_the_plan_are_registered() -> None:
    plan = {"patch", "eval", "check", "ablate", "audit", "report", "bench", "pretrain", "data"}
    assert plan | {"calibrate", "doctor"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert call(monkeypatch, command, "--help") == 0
    assert "Usage" in capsys.readouterr().out


def test_version_is_the_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "--version") == 0
    stated = re.search(r'^version = "(.*)"$', PROJECT.read_text(), re.MULTILINE)
    assert stated is not None
    assert capsys.readouterr().out == f"oretro {stated[1]}\n"


def options() -> Iterator[tuple[str, str]]:
    """Every option of every command, with its help text."""
    commands = list(get_command(app).commands.values())
    for command in commands:
        commands += list(getattr(command, "commands", {}).values())
        yield from ((name, item.help) for item in command.params for name in item.opts[:1])


SHARED = """
--json --quiet --dry-run --overwrite --drop --words --text --dates --decimal --delimiter
--encoding --cache --offline --table --eps-den --eps-mode --figures
"""


@pytest.mark.parametrize("name", SHARED.split())
def test_a_shared_option_says_the_same_everywhere(name: str) -> None:
    assert len({text for option, text in options() if option == name}) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["eval", "nowhere.yaml"], "no configuration file"),
        (["eval", "--seeds", "1,x"], "option: seeds.1"),
        (["eval", "--datasets", "Wages", "--dry-run"], "did you mean Wage"),
        (["eval", "--variants", "oa"], "must contain 'stock'"),
        (["eval", "--tau", "1", "--target-presence", "0.9"], "or --target-presence, not both"),
        (["patch", "mini", "--tau", "1", "--target-presence", "0.9"], "not both"),
        (["eval", "--no-such-option"], "No such option"),
        (["patch", "no-such-file.ckpt"], "no-such-file.ckpt"),
        (["patch", "mini", "--variant", "ao", "--dry-run"], "no variant 'ao'"),
        (["data", "show", "Ames"], "did you mean ames"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_exit_2_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *arguments) == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["check", "ablate", "bench", "bench-tables", "audit"])
def test_out_that_is_a_file_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was computed")

    for name in (
        "experiments.studies.check.check.run_check",
        "experiments.studies.ablation.ablation.run_ablation",
        "retrofit.load_host",
    ):
        monkeypatch.setattr(name, refuse)
    blocked = tmp_path / "file"
    blocked.write_text("mine")
    assert call(monkeypatch, command, "--out", str(blocked)) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {blocked}: cannot be written")
    assert blocked.read_text() == "mine"


def test_built_in_host_is_called_so_by_any_name() -> None:
    import retrofit
    from experiments.cli.output import built_in_notice

    path = retrofit.describe_host("mini").path
    assert path is not None
    assert "not Prior Labs" in built_in_notice(retrofit.describe_host(path).sha256)
    assert built_in_notice("0" * 64) == ""


@pytest.mark.parametrize(("leak", "status"), [("a NULL row, at icl", 1), ("", 0)])
def test_audit_exits_1_where_the_closed_host_leaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], leak: str, status: int
) -> None:
    found = SimpleNamespace(tables=lambda: {"stages": None})
    monkeypatch.setattr("experiments.studies.audit.audit.audit", lambda *_, **__: found)
    monkeypatch.setattr("experiments.studies.audit.page.page", lambda *_, **__: "page")
    monkeypatch.setattr("experiments.studies.audit.leaks.closed_leak", lambda *_: leak)
    assert call(monkeypatch, "audit", "mini", "--variant", "closed") == status
    captured = capsys.readouterr()
    assert captured.out == "page\n"
    assert (f"leaks: {leak}" in captured.err) is bool(leak)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_tables_can_be_printed_on_any_console(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    from experiments.cli.output import print_table

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    print_table("Größe – Δ", ("name", "change"), [("日本 $usd|[b]", "–"), ("plain", "+0.0081 %")])
    sys.stdout.flush()
    text = raw.getvalue().decode(encoding)
    assert "+0.0081 %" in text
    assert "$usd|[b]" in text


def test_data_and_doctor_speak_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "data", "list", "--json") == 0
    listed = {(entry["source"], entry["name"]) for entry in json.loads(capsys.readouterr().out)}
    assert ("packaged", "ames") in listed
    assert call(monkeypatch, "doctor", "--json") == 0
    findings = json.loads(capsys.readouterr().out)
    assert findings["versions"]["tabpfn"].startswith("9.2")
    assert findings["machine"]["torch_threads"] >= 1
    assert findings["hosts"]["mini"].endswith(".safetensors")


def test_patch_reports_every_site_and_writes_a_file_that_loads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import retrofit

    target = tmp_path / "mini-v3-oa.safetensors"
    arguments = ["patch", "mini", "--variant", "oa", "--tau", "1e-3", "-o", str(target), "--json"]
    assert call(monkeypatch, *arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["written"] == str(target)
    assert all(site["calls"] > 0 for site in report["sites"])
    assert {stream["tau"] for stream in report["streams"]} == {1e-3}
    again = retrofit.load_host(target)
    assert again.variant == "oa"
    assert call(monkeypatch, *arguments[:-3]) == 0
    assert "null radius" in capsys.readouterr().out


def test_doctor_answers_where_torch_has_no_such_private_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    from experiments.machine.diagnosis import diagnose

    def gone() -> bool:
        raise AttributeError("no such operator")

    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", gone, raising=False)
    assert "unknown" in diagnose()["kernels"]["bfloat16 matrix products"]
