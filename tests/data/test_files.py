"""The user's own file: read as it was meant, or refused with one sentence that names the place."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import call
from hard_tables import BAD, GOOD, NOTED, PLAIN, ROWS, A, lines, plain

from experiments.data import Table, load_file
from experiments.data.settings import FileSet
from experiments.errors import ConfigError, DataError
from experiments.sweep.cases import plan_cases
from experiments.sweep.config import SweepConfig, load_config
from experiments.sweep.folder.results import read_cases


def read(folder: Path, content: bytes, name: str = "mine.csv", **fields: object) -> Table:
    path = folder / name
    path.write_bytes(content)
    return load_file(FileSet(path=path, **{"target": "y", **fields}))


def test_plain_file_is_its_numbers(tmp_path: Path) -> None:
    table = read(tmp_path, PLAIN)
    np.testing.assert_array_equal(table.X["a"], A)
    assert (table.name, table.source, table.target) == ("mine", "file:mine.csv", "y")
    assert table.notes == ()


@pytest.mark.parametrize("kind", GOOD)
def test_every_way_to_write_a_table_gives_the_same_table(tmp_path: Path, kind: str) -> None:
    table = read(tmp_path, GOOD[kind])
    assert table.sha256 == read(tmp_path, PLAIN).sha256
    changed = read(tmp_path, PLAIN.replace(str(A[0]).encode(), b"9.5"))
    assert table.sha256 != changed.sha256


@pytest.mark.parametrize("kind", NOTED)
def test_odd_table_loads_and_says_what_is_odd(tmp_path: Path, kind: str) -> None:
    content, told = NOTED[kind]
    table = read(tmp_path, content)
    assert told in "; ".join(table.notes)
    assert bool(table.notes) == bool(told)


@pytest.mark.parametrize("kind", BAD)
def test_bad_file_is_one_sentence_with_its_name(tmp_path: Path, kind: str) -> None:
    content, told = BAD[kind]
    with pytest.raises(DataError, match=told) as caught:
        read(tmp_path, content)
    message = str(caught.value)
    assert "mine" in message
    assert "\n" not in message
    assert len(message) < 400


def test_truth_values_with_gaps_are_numbers(tmp_path: Path) -> None:
    table = read(tmp_path, NOTED["truth values with gaps"][0])
    assert table.X["flag"][:2].tolist() == [1.0, 0.0]
    assert np.isnan(table.X["flag"][2])


def test_region_called_na_is_a_region_and_a_number_called_na_is_missing(tmp_path: Path) -> None:
    land = read(tmp_path, NOTED["a country called NA"][0]).X["land"]
    assert land[0] == "NA"
    assert np.isnan(read(tmp_path, NOTED["a number called NA"][0]).X["a"][4])


def test_decimal_comma_and_other_encodings_are_read_when_asked_for(tmp_path: Path) -> None:
    table = read(tmp_path, BAD["decimal commas"][0], decimal=",")
    assert table.sha256 == read(tmp_path, PLAIN).sha256
    assert "aé" in read(tmp_path, BAD["latin-1"][0], encoding="cp1252").X
    with pytest.raises(DataError, match="no encoding 'utf-9'"):
        read(tmp_path, PLAIN, encoding="utf-9")


def test_columns_that_cannot_be_used_can_be_dropped(tmp_path: Path) -> None:
    table = read(tmp_path, BAD["dates"][0], drop=("d",))
    assert list(table.X) == ["b"]
    assert "left out as asked: d" in table.notes
    with pytest.raises(DataError, match="no column 'e' to drop; there are d, b, y"):
        read(tmp_path, BAD["dates"][0], drop=("e",))
    with pytest.raises(DataError, match="both the target and a column to drop"):
        read(tmp_path, PLAIN, drop=("y",))


def test_delimiter_in_a_name_does_not_mislead(tmp_path: Path) -> None:
    content = lines('"a;b;c;d",b,y', plain)
    assert list(read(tmp_path, content).X) == ["a;b;c;d", "b"]
    assert read(tmp_path, PLAIN.replace(b",", b"|"), delimiter="|").sha256 == (
        read(tmp_path, PLAIN).sha256
    )


def test_parquet_is_the_same_table_whatever_it_is_called(tmp_path: Path) -> None:
    content = NOTED["words and numbers"][0]
    text = read(tmp_path, content)
    frame = text.X.astype({"m": object}).assign(y=text.y)
    for dtype in (object, "category", "string"):
        frame.astype({"m": dtype}).to_parquet(tmp_path / "twin.csv")
        twin = load_file(FileSet(path=tmp_path / "twin.csv", target="y"))
        assert twin.sha256 == text.sha256


def test_parquet_with_dates_is_refused_and_a_named_index_is_a_column(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0]})
    frame.assign(d=pd.to_datetime(["2020-01-01", None])).to_parquet(path)
    with pytest.raises(DataError, match="column 'd' holds datetime64"):
        load_file(FileSet(path=path, target="y"))
    frame.set_index(pd.Index(["p", "q"], name="city")).to_parquet(path)
    assert list(load_file(FileSet(path=path, target="y")).X) == ["city", "x"]


@pytest.mark.parametrize(
    ("name", "told"),
    [("nowhere.csv", r"there is no file .*nowhere\.csv"), ("", "is a folder")],
    ids=["missing", "folder"],
)
def test_path_without_a_file_is_named(tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(DataError, match=told):
        load_file(FileSet(path=tmp_path / name, target="y"))


@pytest.mark.parametrize(("rows", "train"), [(1, 0), (2, 1), (3, 2)])
def test_tiny_file_is_planned_as_skipped_before_any_model_is_loaded(
    tmp_path: Path, rows: int, train: int
) -> None:
    path = tmp_path / "tiny.csv"
    path.write_bytes(lines("a,b,y", plain, rows))
    entry = FileSet(path=path, target="y")
    (planned,) = plan_cases(SweepConfig(suite="s", files=(entry,), seeds=(1,)))
    assert len(planned.split.train) == train
    assert bool(planned.skip) == (rows < 3)


def test_two_files_of_one_name_need_another(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    paths = [tmp_path / "t.csv", tmp_path / "sub" / "t.csv"]
    for path in paths:
        path.write_bytes(PLAIN)
    files = tuple(FileSet(path=path, target="y") for path in paths)
    with pytest.raises(DataError, match="two data sets are called 't'"):
        plan_cases(SweepConfig(suite="s", files=files, seeds=(1,)))
    renamed = (files[0], files[1].model_copy(update={"name": "other"}))
    planned = plan_cases(SweepConfig(suite="s", files=renamed, seeds=(1,)))
    assert [item.case.dataset for item in planned] == ["t", "other"]


def test_paths_in_a_yaml_file_are_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "t.csv").write_bytes(PLAIN)
    path = tmp_path / "deep" / "s.yaml"
    path.write_text("suite: s\nfiles: [{path: t.csv, target: y, drop: [b]}]\nseeds: [1]\n")
    monkeypatch.chdir(tmp_path)
    (planned,) = plan_cases(load_config("deep/s.yaml"))
    assert list(planned.table.X) == ["a"]
    path.write_text("suite: s\nseeds: [1]\n")
    with pytest.raises(ConfigError, match="no data: name 'datasets' or 'files'"):
        load_config("deep/s.yaml")
    path.write_text("suite: s\nfiles: [{path: t.csv, traget: y}]\nseeds: [1]\n")
    with pytest.raises(ConfigError, match=r"files\.0\.t"):
        load_config("deep/s.yaml")


def test_own_file_is_evaluated_on_the_built_in_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "a|b, =1 $x$ 'q' " + "n" * 180
    (tmp_path / f"{name}.csv").write_bytes(PLAIN.replace(b"a,b,y", '=a$,"b|é",y'.encode()))
    options = ["--target", "y", "--seeds", "1", "--tau", "1e-3", "--no-noise-floor", "--json"]
    assert call(monkeypatch, "eval", "--data", f"{name}.csv", *options, "--out", "o") == 0
    assert json.loads(capsys.readouterr().out)["statuses"] == {"ok": 3}
    table = read_cases(tmp_path / "o" / "cases.csv")
    assert set(table["dataset"]) == {name}
    assert set(table["n_train"] + table["n_test"]) == {ROWS}


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text there")
def test_file_name_of_another_encoding_gets_a_readable_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"pr\xe9s.csv")
    Path(name).write_bytes(PLAIN)
    assert load_file(FileSet(path=Path(name), target="y")).source == r"file:pr\xe9s.csv"
    options = ["--data", name, "--target", "y", "--seeds", "1", "--dry-run", "--json"]
    assert call(monkeypatch, "eval", *options) == 0
    cases = json.loads(capsys.readouterr().out)["cases"]
    assert {case["dataset"] for case in cases} == {r"pr\xe9s"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--data", "t.csv"], "name the column to predict with --target"),
        (["--target", "y"], "--target: only with --data FILE"),
        (["--data", "t.csv", "--target", "z"], "has no column 'z'"),
        (["--encoding", "cp1252", "--words", "a"], "--words, --encoding: only with --data FILE"),
        (["--data", "t.csv", "--target", "y", "--decimal", ";"], "files.0.decimal"),
        (["--data", "t.csv", "--target", "y", "--delimiter", "ab"], "must be one mark"),
        (["--data", "t.csv", "--target", "y", "--delimiter", '"'], "must be one mark"),
        (["--data", "t.csv", "--target", "y", "--encoding", "hex"], "no encoding 'hex'"),
        (["--data", "nowhere.csv", "--target", "y"], "there is no file nowhere.csv"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_options_for_a_file_exit_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_bytes(PLAIN)
    assert call(monkeypatch, "eval", *arguments, "--out", "o") == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.out == ""


def test_show_tells_what_a_sweep_would_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(NOTED["identifiers"][0])
    assert call(monkeypatch, "data", "show", str(path), "--target", "y", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["columns"], facts["categorical"]) == (ROWS, 2, 1)
    assert "identifier" in facts["notes"][0]
    assert call(monkeypatch, "data", "show", str(path)) == 2
    assert "name the column to predict with --target" in capsys.readouterr().err
