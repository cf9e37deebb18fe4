"""Every option of ``oretro eval`` by what it does to the configuration, and the built-in ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import call

from experiments.sweep.config import SweepConfig, builtin_configs

PAGE = Path(__file__).parents[2] / "docs" / "bring-your-own.md"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, toy_yaml: str) -> Any:
    """The configuration that a command line arrives at."""

    def read(*options: str) -> SweepConfig:
        found: list[SweepConfig] = []
        monkeypatch.setattr(
            "experiments.cli.dry_run.show_plan", lambda config, **_: found.append(config)
        )
        assert call(monkeypatch, "eval", toy_yaml, "--dry-run", *options) == 0
        return found[0]

    return read


@pytest.mark.parametrize(
    ("option", "value", "field", "wanted"),
    [
        ("--device", "cuda:1", "device", "cuda:1"),
        ("--n-estimators", "3", "n_estimators", 3),
        ("--test-fraction", "0.2", "test_fraction", 0.2),
        ("--max-train-rows", "50", "max_train_rows", 50),
        ("--splits", "official", "splits", "official"),
        ("--folds", "5", "folds", 5),
        ("--group-column", "kind", "group_column", "kind"),
        ("--time-column", "x", "time_column", "x"),
        ("--metric", "r2", "metric", ("r2",)),
    ],
)
def test_an_option_sets_its_field_and_no_other(
    asked, option: str, value: str, field: str, wanted: object
) -> None:
    plain, config = asked(), asked(option, value)
    assert getattr(plain, field) == SweepConfig.model_fields[field].default != wanted
    assert config == plain.model_copy(update={field: wanted})


@pytest.mark.parametrize(
    ("option", "value", "field"),
    [
        ("--n-estimators", "0", "n_estimators"),
        ("--test-fraction", "1", "test_fraction"),
        ("--max-train-rows", "1", "max_train_rows"),
        ("--splits", "mine", "splits"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    toy_yaml: str,
    option: str,
    value: str,
    field: str,
) -> None:
    assert call(monkeypatch, "eval", toy_yaml, "--dry-run", option, value) == 2
    assert f"option: {field}: " in capsys.readouterr().err


def test_the_page_lists_every_field_and_real_options() -> None:
    from typer.main import get_command

    from experiments.cli import app

    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("| option of `oretro eval` | field") :]
    rows = re.findall(r"^\| (`--.*?`) \| (.*?) \|", table, re.MULTILINE)
    fields = set(re.findall(r"`(\w+):", " ".join(field for _, field in rows)))
    assert fields == SweepConfig.model_fields.keys() - {"suite", "equivalence_margin_pct"}
    command = get_command(app).commands["eval"]
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    assert set(re.findall(r"--[a-z-]+", " ".join(option for option, _ in rows))) <= known


def test_config_list_says_what_each_is_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "config", "list", "--json") == 0
    listed = {entry["name"]: entry["about"] for entry in json.loads(capsys.readouterr().out)}
    assert listed.keys() == builtin_configs().keys()
    assert listed["packaged18"].startswith("The main comparison: six packaged")
    assert "mini_host" not in listed  # a training run, none of eval's
    assert all(listed.values())
    assert call(monkeypatch, "config", "list") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in listed)


def test_data_list_says_how_large_tables_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "data", "list", "--json") == 0
    sizes = {
        entry["name"]: (entry["rows"], entry["columns"])
        for entry in json.loads(capsys.readouterr().out)
    }
    assert sizes["diabetes"] == (442, 10)
    assert sizes["abalone-361234"] == (4177, 8)
    assert call(monkeypatch, "data", "list") == 0
    assert re.search(r"ames +packaged +\S* +2930 +73", capsys.readouterr().out)
