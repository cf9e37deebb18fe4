"""``oretro eval`` on the command line: what it prints, its exit status, where it leaves files."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from command_line import call, oretro, run
from fakes import FakeModel

from experiments.sweep.folder.results import read_cases


def test_misspelt_device_exits_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], toy_yaml: str
) -> None:
    path = Path(toy_yaml)
    path.write_text(path.read_text() + "device: cdua\n")
    for more in ([], ["--dry-run"]):
        assert call(monkeypatch, "eval", toy_yaml, "--out", str(path.parent / "o"), *more) == 2
        assert "device: 'cdua' is none" in capsys.readouterr().err
    assert not (path.parent / "o").exists()


def test_dry_run_lists_cases_and_sites_without_reading_a_weight(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], toy_yaml: str
) -> None:
    import retrofit

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr(retrofit, "load_host", refuse)
    monkeypatch.setattr("torch.load", refuse)
    monkeypatch.setattr("safetensors.torch.load_file", refuse)
    assert call(monkeypatch, "eval", toy_yaml, "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert [(case["dataset"], case["n_train"]) for case in plan["cases"]] == [
        ("left", 14),
        ("right", 16),
    ]
    assert plan["sites"]["oa"]["counts"]["ffn"] == 0
    assert plan["sites"]["full"]["counts"]["ffn"] == plan["sites"]["oa"]["counts"]["attention"] > 0
    assert call(monkeypatch, "eval", toy_yaml, "--dry-run") == 0
    assert "full: " in capsys.readouterr().out


def test_sweep_prints_json_alone_on_stdout(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    toy_yaml: str,
    tmp_path: Path,
    fake_load,
) -> None:
    fake_load()
    out = tmp_path / "out"
    assert call(monkeypatch, "eval", toy_yaml, "--out", str(out), "--json") == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert [variant["variant"] for variant in result["variants"]] == ["oa", "full"]
    assert result["statuses"] == {"ok": 6}
    assert "[10/10] " in captured.err


def test_quiet_sweep_prints_the_table_and_no_progress(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    toy_yaml: str,
    tmp_path: Path,
    fake_load,
) -> None:
    fake_load()
    assert call(monkeypatch, "eval", toy_yaml, "--out", str(tmp_path / "o"), "--quiet") == 0
    captured = capsys.readouterr()
    assert "mean RMSE change" in captured.out
    assert "No universal no-loss" in captured.out
    assert "[1/" not in captured.err


def test_case_that_cannot_be_scored_says_why_once(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    fake_load,
) -> None:
    fake_load()
    (tmp_path / "one.csv").write_text("a,b,y\n1,2,3\n")
    table = ["--data", str(tmp_path / "one.csv"), "--target", "y", "--seeds", "1"]
    for form in ([], ["--json"]):
        assert call(monkeypatch, "eval", *table, "--out", str(tmp_path / "o"), "-q", *form) == 0
        captured = capsys.readouterr()
        assert captured.err.count("1 rows leave 0 to train on") == 1
        assert "one, seed 1, stock, oa, full: skipped: 1 rows" in captured.err
    assert len(json.loads(captured.out)["notes"]) == 1


def test_failed_row_exits_1_and_the_rest_is_there(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    toy_yaml: str,
    tmp_path: Path,
    fake_load,
) -> None:
    fake_load(oa=FakeModel(error=ValueError("no")), full=FakeModel(0.1))
    out = tmp_path / "out"
    assert call(monkeypatch, "eval", toy_yaml, "--out", str(out), "--quiet") == 1
    told = capsys.readouterr().err
    assert "2 row(s) failed" in told
    for name in ("left", "right"):
        assert f"{name}, seed 1, oa: failed: ValueError: no\n" in told
    assert read_cases(out / "cases.csv")["status"].value_counts().to_dict() == {
        "ok": 4,
        "failed": 2,
    }


def test_default_folder_depends_on_what_is_compared(
    monkeypatch: pytest.MonkeyPatch, toy_yaml: str, tmp_path: Path, fake_load
) -> None:
    fake_load()
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "eval", toy_yaml, "--quiet") == 0
    assert (tmp_path / "runs" / "toy-mini" / "summary.md").is_file()


@pytest.mark.slow
def test_ctrl_c_exits_130_and_the_same_command_finishes(tmp_path: Path) -> None:
    config = tmp_path / "small.yaml"
    config.write_text(
        "suite: small\nhost: mini\ndatasets: [diabetes]\nseeds: [1, 2]\nvariants: [stock, oa]\n"
        "n_estimators: 1\nnoise_floor: false\ntau: 0.001\n"
    )
    command = oretro("eval", str(config), "--out", str(tmp_path / "stopped"))

    def heed_interrupts() -> None:
        # A shell that runs the tests in the background has them ignored.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("[1/4]"):
                process.send_signal(signal.SIGINT)
                break
        told = process.stderr.read()
        assert process.wait(60) == 130
    assert "run the same command again" in told
    before = (tmp_path / "stopped" / "cases.csv").read_text().splitlines()
    done = len(before) - 1
    assert 1 <= done < 4
    again = run(*command[3:])
    assert again.returncode == 0, again.stderr
    assert f"{4 - done} computed now, {done} reused" in again.stderr
    assert set(before) <= set((tmp_path / "stopped" / "cases.csv").read_text().splitlines())
