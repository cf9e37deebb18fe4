"""Built-in names mean the same in every working directory; a file of the name is ``./NAME``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from command_line import call

import retrofit

DRY = ("--seeds", "1", "--dry-run", "--json")


@pytest.fixture(autouse=True)
def shadows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files that are called like data sets, configurations and hosts."""
    monkeypatch.chdir(tmp_path)
    for name in ("diabetes", "packaged18", "mini", "v3", "ames"):
        (tmp_path / name).write_text("suite: mine\ndatasets: [concrete]\nseeds: [1]\n")
    return tmp_path


def test_data_set_is_the_built_in_one(monkeypatch, capsys) -> None:
    assert call(monkeypatch, "data", "show", "diabetes", "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["rows"] == 442
    assert captured.err == (
        "note: diabetes is the built-in data set; the file of that name here is ./diabetes\n"
    )
    assert call(monkeypatch, "data", "show", "./diabetes") == 2
    assert "--data diabetes: name the column to predict" in capsys.readouterr().err


def test_file_with_a_target_is_the_file(monkeypatch, capsys, tmp_path) -> None:
    (tmp_path / "ames").write_text("a,y\n1,2\n3,4\n5,6\n")
    assert call(monkeypatch, "data", "show", "ames", "--target", "y", "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["rows"] == 3
    assert captured.err == ""


def test_configuration_is_the_built_in_one(monkeypatch, capsys) -> None:
    assert call(monkeypatch, "eval", *DRY) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["config"]["suite"] == "packaged18"
    assert "note: packaged18 is the built-in configuration" in captured.err
    assert "note: mini is the built-in host" in captured.err
    assert call(monkeypatch, "eval", "./packaged18", *DRY) == 0
    assert json.loads(capsys.readouterr().out)["config"]["suite"] == "mine"


def test_host_is_the_built_in_one(shadows: Path) -> None:
    for name in ("mini", "v3"):
        torch.save({}, shadows / name)
        found = retrofit.describe_host(name).path
        assert found is None or found.parent != Path()
        with pytest.raises(retrofit.errors.CheckpointError, match=name):
            retrofit.describe_host(f"./{name}")


def test_nothing_is_said_where_nothing_is_shadowed(monkeypatch, capsys, shadows) -> None:
    for path in shadows.iterdir():
        path.unlink()
    assert call(monkeypatch, "eval", *DRY) == 0
    assert "note" not in capsys.readouterr().err
