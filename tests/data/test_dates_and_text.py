"""Dates as parts and free text as hashed words: opted in, the same for a row whatever beside it."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import call

from experiments.data import Table, load_file
from experiments.data.files import load_features
from experiments.data.settings import FileSet
from experiments.errors import DataError
from experiments.sweep.config import SweepConfig

DAYS = ["2024-02-29", "1969-12-31", "", "2021-05-03"]
SAID = ["good house", "bad house", "", "good garden, good house"]
PARTS = ["when year", "when month", "when day", "when weekday", "when days since 1970-01-01"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [f'{i},{day},"{text}",{i}' for i, (day, text) in enumerate(zip(DAYS, SAID, strict=True))]
    (tmp_path / "t.csv").write_text("x,when,said,y\n" + "\n".join(rows) + "\n")
    return tmp_path / "t.csv"


def read(path: Path, **fields: object) -> Table:
    return load_file(FileSet(path=path, **{"target": "y", **fields}))


def test_a_date_is_its_parts(table: Path) -> None:
    loaded = read(table, dates="parts")
    assert list(loaded.X.columns) == ["x", "said", *PARTS]
    for row, text in enumerate(DAYS):
        if text:
            day = dt.date.fromisoformat(text)
            since = (day - dt.date(1970, 1, 1)).days
            wanted = [day.year, day.month, day.day, day.weekday(), since]
            assert loaded.X.loc[row, PARTS].tolist() == wanted
        else:
            assert loaded.X.loc[row, PARTS].isna().all()
    assert any("'when' holds dates: taken as year, month" in note for note in loaded.notes)
    with pytest.raises(DataError, match=r"holds dates such as .*--dates parts"):
        read(table)


def test_days_in_order_are_no_identifier(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"2024-01-0{day},{day % 2},{day % 3}\n" for day in range(1, 8))
    path.write_text("when,x,y\n" + rows)
    assert not any("counts the rows" in note for note in read(path, dates="parts").notes)


def test_a_time_of_day_is_a_part_of_the_days(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("when,y\n1970-01-02T06:00,1\n1970-01-02T12:00,2\n")
    assert read(path, dates="parts").X[PARTS[-1]].tolist() == [1.25, 1.5]


def test_parquet_gives_the_same_parts_and_refuses_without_them(table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table)
    typed = pd.to_datetime(frame["when"])
    for dates in (typed, typed.dt.date, frame["when"].astype(object)):
        frame.assign(when=dates).to_parquet(tmp_path / "t.parquet")
        assert (
            read(tmp_path / "t.parquet", dates="parts").sha256 == read(table, dates="parts").sha256
        )
    frame.assign(when=typed).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="datetime64"):
        read(tmp_path / "t.parquet")


def test_text_is_its_words_in_any_order(table: Path, tmp_path: Path) -> None:
    loaded = read(table, text=("said",), drop=("when",))
    assert list(loaded.X.columns) == ["x", *(f"said word {number}" for number in range(32))]
    words = loaded.X.filter(like="word").to_numpy()
    assert np.isnan(words[2]).all()
    np.testing.assert_allclose(np.linalg.norm(words[[0, 1, 3]], axis=1), 1.0)
    # good house is nearer to good garden, good house than bad house is.
    assert words[0] @ words[3] > words[1] @ words[3]
    table.write_text(table.read_text().replace("good house", "house; GOOD", 1))
    np.testing.assert_array_equal(
        read(table, text=("said",), drop=("when",)).X.to_numpy(), loaded.X.to_numpy()
    )
    # The twin: without the option it is a category.
    assert read(table, drop=("when",)).categorical == ("said",)
    assert any("'said' is text: its words hashed to 32" in note for note in loaded.notes)


def test_a_row_becomes_the_same_whatever_stands_beside_it(table: Path, tmp_path: Path) -> None:
    opted = {"text": ("said",), "dates": "parts"}
    whole = read(table, **opted)
    lines = table.read_text().splitlines()
    (tmp_path / "one.csv").write_text("\n".join([lines[0], lines[4]]) + "\n")
    entry = FileSet(path=tmp_path / "one.csv", target="y", **opted)
    features = load_features(entry, whole.X)
    pd.testing.assert_frame_equal(features, whole.X.iloc[[3]].reset_index(drop=True))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"text": ("sad",)}, "no column 'sad' of text"),
        ({"text": ("y",)}, "'y' is the target, which cannot be words"),
        ({"text": ("said",), "words": ("said",)}, "'said' is a column of text, and one of words"),
        ({"target": "when", "dates": "parts"}, "choose another target"),
    ],
)
def test_what_makes_no_sense_is_refused(table: Path, fields: dict[str, object], told: str) -> None:
    with pytest.raises(DataError, match=told):
        read(table, **fields)


def test_a_made_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("when,when year,y\n2024-01-01,1,1\n2024-01-02,2,2\n")
    with pytest.raises(DataError, match="more than one column named when year"):
        read(path, dates="parts")


def test_the_options_reach_data_show_and_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], table: Path
) -> None:
    opted = ["--target", "y", "--dates", "parts", "--text", "said"]
    assert call(monkeypatch, "data", "show", str(table), *opted, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["columns"] == 1 + 5 + 32
    assert any("taken as year" in note for note in facts["notes"])
    found: list[SweepConfig] = []
    monkeypatch.setattr(
        "experiments.cli.dry_run.show_plan", lambda config, **_: found.append(config)
    )
    assert call(monkeypatch, "eval", "--data", str(table), *opted, "--dry-run") == 0
    recorded = found[0].model_dump(mode="json")["files"][0]
    assert (recorded["dates"], recorded["text"]) == ("parts", ["said"])
    assert call(monkeypatch, "data", "show", str(table), "--target", "y", "--dates", "all") == 2
    assert "dates: " in capsys.readouterr().err
