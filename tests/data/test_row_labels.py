"""Row labels that nobody named are not a feature, whatever file format brings them along."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.data import Table, load_file
from experiments.data.settings import FileSet
from experiments.errors import DataError

ROWS = 30
RNG = np.random.default_rng(3)
FRAME = pd.DataFrame({"a": RNG.normal(size=ROWS), "b": RNG.normal(size=ROWS)})
FRAME["y"] = FRAME["a"] + RNG.normal(size=ROWS)
NOTE = "row labels without a name are left out"


def load(path: Path, **fields: object) -> Table:
    return load_file(FileSet(path=path, **{"target": "y", **fields}))


def as_csv(frame: pd.DataFrame, folder: Path) -> Table:
    frame.to_csv(folder / "twin.csv", index=False)
    return load(folder / "twin.csv")


INDEXES = {
    "filtered": lambda frame: frame[frame["b"] > -0.5],
    "shuffled": lambda frame: frame.sample(frac=1, random_state=0),
    "sorted by the target": lambda frame: frame.sort_values("y", ignore_index=True)[::2].loc[2:],
    "text": lambda frame: frame.set_axis([f"house {n}" for n in range(ROWS)]),
    "dates": lambda frame: frame.set_axis(pd.date_range("2020-01-01", periods=ROWS)),
    "floats": lambda frame: frame.set_axis(np.linspace(0, 1, ROWS)),
    "two levels": lambda frame: frame.set_axis(
        pd.MultiIndex.from_arrays([range(ROWS), list("ab" * 15)])
    ),
}


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("metadata", [True, False], ids=["pandas", "plain"])
def test_index_without_a_name_is_left_out_with_a_note(tmp_path: Path, kind: str, metadata) -> None:
    frame = INDEXES[kind](FRAME)
    stored = pa.Table.from_pandas(frame, preserve_index=True)
    # Without pandas' metadata, as other programs rewrite it, labels are a column like any other.
    pq.write_table(stored if metadata else stored.replace_schema_metadata(None), tmp_path / "t.pq")
    table = load(tmp_path / "t.pq")
    assert list(table.X) == ["a", "b"]
    assert table.sha256 == as_csv(frame, tmp_path).sha256
    assert NOTE in "; ".join(table.notes)


def test_default_index_needs_no_note_and_a_named_one_stays_a_column(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "t.pq")
    assert load(tmp_path / "t.pq").notes == ()
    floors = FRAME.set_axis(pd.Index(np.arange(ROWS) % 5, name="floor"))
    floors.to_parquet(tmp_path / "t.pq")
    table = load(tmp_path / "t.pq")
    assert list(table.X) == ["floor", "a", "b"]
    assert NOTE not in "; ".join(table.notes)
    levels = pd.MultiIndex.from_arrays([np.arange(ROWS) % 5, np.arange(ROWS)])
    FRAME.set_axis(levels.set_names(["floor", None])).to_parquet(tmp_path / "t.pq")
    assert load(tmp_path / "t.pq").sha256 == table.sha256
    FRAME.set_axis(pd.RangeIndex(ROWS, name="day")).to_parquet(tmp_path / "t.pq")
    assert load(tmp_path / "t.pq").notes == ("the index 'day' counts the rows and is left out",)


def test_column_that_is_called_index_is_a_column(tmp_path: Path) -> None:
    prices = FRAME.assign(index=RNG.normal(size=ROWS)).iloc[RNG.permutation(ROWS)]
    prices.to_parquet(tmp_path / "t.pq")
    table = load(tmp_path / "t.pq")
    assert list(table.X) == ["a", "b", "index"]
    assert table.sha256 == as_csv(prices, tmp_path).sha256
    kept = prices.set_axis(pd.Index(RNG.permutation(ROWS), name="index"))
    kept.to_parquet(tmp_path / "t.pq")
    with pytest.raises(DataError, match="both a column and the index are named 'index'"):
        load(tmp_path / "t.pq")


@pytest.mark.parametrize("name", ["index", "level_0", "id"])
def test_named_column_that_counts_the_rows_is_pointed_out(tmp_path: Path, name: str) -> None:
    counted = FRAME.assign(**{name: RNG.permutation(ROWS) + 7})
    table = as_csv(counted, tmp_path)
    told = f"column '{name}' counts the rows, in some order: if it is an identifier, drop it"
    assert table.notes == (told,)
    assert as_csv(counted.assign(**{name: counted[name] * 2}), tmp_path).notes == ()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_labels_that_pandas_named_are_left_out_unless_they_hold_data(
    tmp_path: Path, kind: str
) -> None:
    def write(frame: pd.DataFrame) -> Table:
        if kind == "csv":
            return as_csv(frame, tmp_path)
        frame.to_parquet(tmp_path / "t.pq")
        return load(tmp_path / "t.pq")

    plain = write(FRAME)
    labels = RNG.permutation(3 * ROWS)[:ROWS]
    labelled = FRAME.assign(**{"Unnamed: 0": labels})
    table = write(labelled)
    assert table.sha256 == plain.sha256
    assert f"{NOTE}: Unnamed: 0" in table.notes
    assert "Unnamed: 0" in write(FRAME.assign(**{"Unnamed: 0": FRAME["a"] ** 2})).X


@pytest.mark.parametrize("name", ["", " "])
def test_column_of_parquet_without_a_name_is_left_out(tmp_path: Path, name: str) -> None:
    labels = RNG.permutation(3 * ROWS)[:ROWS]
    stored = pa.Table.from_pandas(FRAME.assign(**{name: labels}), preserve_index=False)
    pq.write_table(stored.replace_schema_metadata(None), tmp_path / "t.pq")
    table = load(tmp_path / "t.pq")
    assert table.sha256 == as_csv(FRAME, tmp_path).sha256
    assert f"{NOTE}: column ''" in table.notes
    FRAME.set_axis(pd.Index(labels, name=name)).to_parquet(tmp_path / "t.pq")
    assert load(tmp_path / "t.pq").sha256 == table.sha256


def test_labels_may_still_be_dropped_by_name(tmp_path: Path) -> None:
    stored = pa.Table.from_pandas(FRAME[FRAME["b"] > 0]).replace_schema_metadata(None)
    pq.write_table(stored, tmp_path / "t.pq")
    table = load(tmp_path / "t.pq", drop=("__index_level_0__",))
    assert table.sha256 == load(tmp_path / "t.pq").sha256
