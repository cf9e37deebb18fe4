"""``oretro check``: tables, files and exit status."""

from __future__ import annotations

import json

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import experiments.cli.commands  # noqa: F401  (registers the commands)
from experiments.cli.app import app
from experiments.errors import ConfigError
from experiments.studies.check.check import COLUMNS, CheckConfig, run_check
from retrofit import contracts
from retrofit.contracts import Figure

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def two_figures(monkeypatch):
    """Replace the laws: one figure that holds, and one that does so only for ``naive``."""

    def measure(setting):
        bad = 0.0 if setting.kernel == "naive" else float("nan")
        return [
            Figure("kept", "always", 0.25, 0.5, "half", 0.125),
            Figure("broken", "now and then", bad, 0.0, "exactly 0", 0.125),
        ]

    monkeypatch.setattr(contracts, "measure", measure)


def test_a_real_check_passes_and_writes(tmp_path):
    arguments = ["check", "--dtype", "bfloat16", "--out", str(tmp_path), "--quiet"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    table = pd.read_csv(tmp_path / "contracts_cpu.csv")
    assert tuple(table.columns) == COLUMNS
    assert set(table["dtype"]) == {"bfloat16"}
    assert set(table["kernel"]) == {"naive", "exact", "direct", "fused_lse", "fused_sink", "auto"}
    assert set(table["status"]) == {"PASS"}
    page = (tmp_path / "contracts_cpu.md").read_text()
    assert "O-Closure" in page
    assert "fused_lse" in page
    record = json.loads((tmp_path / "contracts_cpu.json").read_text())
    assert record["figures"] == len(table)
    assert record["failed"] == 0


def test_a_broken_law_is_named_and_exits_with_one(two_figures, tmp_path):
    done = CliRunner().invoke(app, ["check", "--dtype", "float32", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "now and then" in done.stdout
    assert "FAIL" in done.stdout
    table = pd.read_csv(tmp_path / "contracts_cpu.csv")
    assert (table[table["law"] == "kept"]["status"] == "PASS").all()
    broken = table[table["law"] == "broken"].set_index("kernel")["status"]
    assert broken.pop("naive") == "PASS"
    assert (broken == "FAIL").all()


def test_json_has_every_figure(two_figures):
    done = CliRunner().invoke(app, ["check", "--dtype", "float16", "--json", "-q"])
    figures = json.loads(done.stdout[: done.stdout.rindex("}") + 1])["figures"]
    assert len(figures) == 2 * 6
    assert {figure["linf"] for figure in figures if figure["law"] == "kept"} == {0.25}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="cuda"):
        run_check(CheckConfig(device="cuda"))


def test_an_unknown_dtype_is_a_usage_error():
    assert CliRunner().invoke(app, ["check", "--dtype", "float8"]).exit_code == 2
