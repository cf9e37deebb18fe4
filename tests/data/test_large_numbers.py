"""Whole numbers beyond float64: pointed out in a feature, refused in a target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.data import Table, load_file, make_table
from experiments.data.settings import FileSet
from experiments.errors import DataError

ROWS = 40
PRICE = np.random.default_rng(1).normal(size=ROWS)
NEAR = np.arange(ROWS, dtype=np.int64) + 2**60
TOLD = "column 'code': 40 numbers beyond 2\\*\\*53 become 1 in float64"


def load(folder: Path, frame: pd.DataFrame, kind: str, target: str = "price") -> Table:
    path = folder / f"t.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    return load_file(FileSet(path=path, target=target))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "Int64", object])
def test_numbers_that_float64_merges_are_pointed_out(tmp_path: Path, kind: str, dtype) -> None:
    frame = pd.DataFrame({"code": pd.Series(NEAR, dtype=dtype), "price": PRICE})
    table = load(tmp_path, frame, kind)
    assert len(set(table.X["code"])) == 1
    assert any(note.startswith(TOLD.replace("\\", "")) for note in table.notes)
    with pytest.raises(DataError, match="target " + TOLD):
        load(tmp_path, frame, kind, target="code")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_large_numbers_that_float64_tells_apart_need_no_note(tmp_path: Path, kind: str) -> None:
    spread = pd.DataFrame({"code": np.arange(ROWS, dtype=np.int64) ** 2 * 2**50, "price": PRICE})
    table = load(tmp_path, spread, kind)
    assert len(set(table.X["code"])) == ROWS
    assert table.notes == ()
    assert load(tmp_path, spread.assign(code=spread["code"].astype(float)), kind).sha256 == (
        table.sha256
    )


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=8, unique=True))
def test_note_stands_where_and_only_where_numbers_are_lost(numbers: list[int]) -> None:
    frame = pd.DataFrame({"x": np.array(numbers, dtype=np.int64), "y": np.arange(len(numbers))})
    table = make_table(frame, name="t", target="y", licence="", source="")
    lost = len({float(number) for number in numbers}) < len(numbers)
    assert bool(table.notes) == lost
