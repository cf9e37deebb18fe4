"""Folds, groups and time order of tables, by the rows that land on each side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.data import load_file
from experiments.data.settings import FileSet
from experiments.data.splits import SplitColumns, draw_split
from experiments.errors import ConfigError, DataError
from experiments.sweep.cases import PlannedCase, plan_cases
from experiments.sweep.config import SweepConfig, load_config

ROWS = 30


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    days = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.permutation(ROWS) // 2, unit="D")
    return pd.DataFrame(
        {
            "x": rng.normal(size=ROWS),
            "shop": [f"s{number}" for number in rng.integers(0, 7, ROWS)],
            "sold": days.strftime("%Y-%m-%d"),
            "y": rng.normal(size=ROWS),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    frame().to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def plan(path: Path, drop: tuple[str, ...] = (), **settings: object) -> list[PlannedCase]:
    files = (FileSet(path=path, target="y", drop=drop),)
    return list(plan_cases(SweepConfig(suite="s", files=files, **{"seeds": (1, 2), **settings})))


def test_folds_of_a_seed_test_every_row_once_and_seeds_draw_others(table: Path) -> None:
    cases = plan(table, drop=("sold",), folds=4)
    assert [item.case.seed for item in cases] == [4, 5, 6, 7, 8, 9, 10, 11]
    for seed in (cases[:4], cases[4:]):
        tested = np.concatenate([item.split.test for item in seed])
        assert sorted(tested) == list(range(ROWS))
        for item in seed:
            both = [*item.split.train, *item.split.test]
            assert sorted(both) == list(range(ROWS))
    assert cases[0].split.sha256 != cases[4].split.sha256
    with pytest.raises(DataError, match="n_splits=31"):
        plan(table, drop=("sold",), folds=31)


def test_without_an_option_splits_are_as_published(table: Path) -> None:
    (case, _) = plan(table, drop=("sold",))
    assert case.split.sha256 == draw_split("t", 1, ROWS, 0.3).sha256
    assert list(case.table.X.columns) == ["x", "shop"]


@pytest.mark.parametrize("folds", [None, 3])
def test_a_group_is_never_on_both_sides(table: Path, folds: int | None) -> None:
    shops = frame()["shop"].to_numpy()
    cases = plan(table, drop=("sold",), group_column="shop", folds=folds)
    for item in cases:
        assert not set(shops[item.split.train]) & set(shops[item.split.test])
        assert sorted([*item.split.train, *item.split.test]) == list(range(ROWS))
        assert list(item.table.X.columns) == ["x"]
    if folds:
        tested = np.concatenate([item.split.test for item in cases[:folds]])
        assert sorted(tested) == list(range(ROWS))
    # The twin: rows by themselves mix the shops.
    (mixed, *_) = plan(table, drop=("sold",), folds=folds)
    assert set(shops[mixed.split.train]) & set(shops[mixed.split.test])


def test_a_share_of_groups_is_tested(table: Path) -> None:
    shops = frame()["shop"].to_numpy()
    for fraction, wanted in ((0.15, 2), (0.6, 5)):
        (case, *_) = plan(table, drop=("sold",), group_column="shop", test_fraction=fraction)
        assert len(set(shops[case.split.test])) == wanted


@pytest.mark.parametrize("column", ["shop", "sold"])
def test_a_column_that_is_left_out_can_split_rows(table: Path, column: str) -> None:
    asked = {"group_column" if column == "shop" else "time_column": column}
    (case, _) = plan(table, drop=("shop", "sold"), **asked)
    (other, _) = plan(table, drop=tuple({"shop", "sold"} - {column}), **asked)
    assert case.split.sha256 == other.split.sha256
    assert list(case.table.X.columns) == ["x"]


@pytest.mark.parametrize("folds", [None, 3])
def test_training_rows_are_earlier_than_every_test_row(table: Path, folds: int | None) -> None:
    sold = pd.to_datetime(frame()["sold"]).to_numpy()
    cases = plan(table, drop=("shop",), time_column="sold", folds=folds)
    for item in cases:
        assert sold[item.split.train].max() < sold[item.split.test].min()
        assert list(item.table.X.columns) == ["x"]
    assert cases[0].split.test.size == (10 if folds is None else 6)
    if folds:
        assert len({item.split.sha256 for item in cases[:folds]}) == folds
    (mixed, *_) = plan(table, drop=("sold",))
    assert sold[mixed.split.train].max() > sold[mixed.split.test].min()


def test_numbers_are_times_and_the_column_stays_where_it_is_wanted(tmp_path: Path) -> None:
    numbers = frame().assign(sold=np.arange(ROWS)[::-1])
    numbers.to_csv(tmp_path / "n.csv", index=False)
    (left_out, _) = plan(tmp_path / "n.csv", time_column="sold")
    assert left_out.split.test.tolist() == list(range(9))
    (kept, _) = plan(tmp_path / "n.csv", time_column="sold", keep_split_column=True)
    assert kept.split.sha256 == left_out.split.sha256
    assert [list(item.table.X.columns) for item in (left_out, kept)] == [
        ["x", "shop"],
        ["x", "shop", "sold"],
    ]
    assert any("how rows are split" in note for note in left_out.table.notes)


def test_parquet_says_the_same_as_csv(table: Path, tmp_path: Path) -> None:
    typed = frame().assign(sold=pd.to_datetime(frame()["sold"]))
    typed.to_parquet(tmp_path / "t.parquet")
    for column in ("shop", "sold"):
        columns = SplitColumns(**{"group" if column == "shop" else "time": column})
        drop = ("sold",) if column == "shop" else ("shop",)
        one, other = (
            load_file(FileSet(path=path, target="y", drop=drop), columns)
            for path in (table, tmp_path / "t.parquet")
        )
        labels = [t.groups if column == "shop" else t.times for t in (one, other)]
        np.testing.assert_array_equal(*labels)
        assert one.sha256 == other.sha256


@pytest.mark.parametrize(
    ("written", "order"),
    [
        (["2021-03-02", "2021-01-04", "2021-02-03"], [1, 2, 0]),
        (["13/01/2021", "02/01/2021", "03/03/2021"], [1, 0, 2]),
        (["01/13/2021", "02/01/2021", "01/02/2021"], [2, 0, 1]),
        (["2021-03-02T10:00", "2021-03-02T09:30", "2021-01-01"], [2, 1, 0]),
        (["10-Mar-2024", "09-Mar-2024", "11-Feb-2023"], [2, 1, 0]),
    ],
)
def test_dates_are_read_in_the_order_that_their_cells_allow(
    tmp_path: Path, written: list[str], order: list[int]
) -> None:
    path = tmp_path / "d.csv"
    path.write_text("x,t,y\n" + "".join(f"{i},{cell},{i}\n" for i, cell in enumerate(written)))
    loaded = load_file(FileSet(path=path, target="y"), SplitColumns(time="t"))
    assert loaded.times is not None
    assert np.argsort(loaded.times).tolist() == order


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["01/02/2021", "03/04/2021", "05/06/2021"], "day and month cannot be told apart"),
        (["2021-01-01", "", "2021-01-03"], "no value in 1 row.*row 1"),
        (["2021-01-01", "spring", "2021-01-03"], "row 1 holds 'spring', which is no date"),
        (["09:30", "10:30", "11:30"], "row 0 holds '09:30', which is no date"),
        (["2021-01-01", "2021-13-41", "2021-01-03"], "not all written alike"),
    ],
)
def test_times_that_cannot_be_ordered_are_refused(
    tmp_path: Path, cells: list[str], told: str
) -> None:
    path = tmp_path / "d.csv"
    path.write_text("x,t,y\n" + "".join(f"{i},{cell},{i}\n" for i, cell in enumerate(cells)))
    with pytest.raises(DataError, match=told):
        load_file(FileSet(path=path, target="y"), SplitColumns(time="t"))


def test_too_few_groups_and_moments_are_said(table: Path) -> None:
    with pytest.raises(DataError, match="'t' cannot be split so"):
        plan(table, drop=("sold",), group_column="shop", folds=9)
    with pytest.raises(DataError, match="'t' cannot be split so"):
        plan(table, drop=("shop",), time_column="sold", folds=20)
    with pytest.raises(DataError, match="no column 'shops'; did you mean shop"):
        plan(table, drop=("sold",), group_column="shops")
    with pytest.raises(DataError, match="'y' is the target"):
        plan(table, drop=("sold",), group_column="y")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"folds": 1}, "folds"),
        ({"group_column": "a", "time_column": "b"}, "drop either"),
        ({"splits": "official", "folds": 3}, "folds: official splits are as they are"),
        ({"keep_split_column": True}, "only with group_column or time_column"),
        ({"folds": 5, "seeds": [2**32 - 1]}, "lower the seeds"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_config("packaged18", options)
