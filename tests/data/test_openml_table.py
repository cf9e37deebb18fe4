"""OpenML tasks through the real client: one table, whatever file it came in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from openml_server import FakeOpenML, ToyData, houses

from experiments.data import load_table
from experiments.data.table import Table
from experiments.errors import DataError

TASK = "openml:7"


def served(serve, settings, data: ToyData, **options) -> Table:
    return load_table(TASK, settings(serve(data), **options))


def from_parquet(data: ToyData) -> ToyData:
    """The same table on a server that has lost its ARFF."""
    return replace(data, parquet=True)


def load_parquet(serve, settings, data: ToyData, tmp_path, **options) -> Table:
    server: FakeOpenML = serve(from_parquet(data))
    from openml_server import html

    server.fail("houses.arff", html(404))
    return load_table(TASK, settings(server, cache=tmp_path / "parquet", **options))


def test_arff_and_parquet_are_one_table_with_one_hash(serve, settings, tmp_path) -> None:
    table = served(serve, settings, houses())
    twin = load_parquet(serve, settings, houses(), tmp_path)
    pd.testing.assert_frame_equal(table.X, twin.X)
    assert table.sha256 == twin.sha256
    assert not list((tmp_path / "parquet").rglob("*.arff"))
    changed = houses()
    changed.frame.loc[5, "size"] += 1
    assert load_parquet(serve, settings, changed, tmp_path).sha256 != table.sha256


def test_table_is_what_the_server_says(serve, settings) -> None:
    data = houses()
    table = served(serve, settings, data)
    assert list(table.X) == ["age", "garden", "heating", "size", "stars", "street"]
    assert table.categorical == ("garden", "heating", "stars", "street")
    np.testing.assert_array_equal(table.y, data.frame["price"])
    np.testing.assert_array_equal(table.X["size"], data.frame["size"].astype(float))
    assert table.X["heating"].astype(object).where(table.X["heating"].notna(), None).tolist() == (
        data.frame["heating"].astype(object).where(data.frame["heating"].notna(), None).tolist()
    )
    assert table.X["street"][0] == "Straße 0"
    assert set(table.X["stars"].cat.categories) == {"1", "2", "10"}
    assert (table.licence, table.source, table.name) == ("CC0", "openml:7", "task-7")
    assert table.notes == ("left out as the server says: row, tax",)


def test_small_integers_do_not_wrap_around(serve, settings) -> None:
    # The client reads whole numbers up to 255 as uint8, where 1 - 5 is 252.
    data = houses()
    data.frame["size"] = np.arange(len(data.frame)) % 9
    table = served(serve, settings, data)
    assert (table.X["size"] - 5).min() == -5


@pytest.mark.parametrize("kind", ["category of bools", "bools", "words", "lower case"])
def test_nominal_truth_values_are_text_from_every_parquet(serve, settings, tmp_path, kind) -> None:
    expected = served(serve, settings, houses())
    data = houses()
    truth = data.frame["garden"].astype(object)
    forms = {
        "category of bools": truth.astype("category"),
        "bools": truth == "True",
        "words": truth,
        "lower case": truth.str.lower(),
    }
    data.frame["garden"] = forms[kind]
    assert load_parquet(serve, settings, data, tmp_path).sha256 == expected.sha256


@pytest.mark.parametrize("place", [0, 4, 8])
def test_order_of_columns_in_the_file_does_not_matter(serve, settings, tmp_path, place) -> None:
    expected = served(serve, settings, houses())
    data = houses()
    names = [name for name in reversed(data.frame.columns) if name != "price"]
    names.insert(place, "price")
    data.frame = data.frame[names]
    assert load_parquet(serve, settings, data, tmp_path).sha256 == expected.sha256


def test_ignored_columns_sent_as_one_text_are_left_out(serve, settings) -> None:
    table = served(serve, settings, replace(houses(), ignore=("tax,street",)))
    assert not {"row", "tax", "street"} & set(table.X)


def test_names_with_commas_quotes_and_signs_survive(serve, settings, tmp_path) -> None:
    data = houses()
    odd = {"heating": "a|b, c", "size": "=1+1 $x$", "stars": "größe 大"}
    data.frame = data.frame.rename(columns=odd)
    data.attributes = {odd.get(name, name): kind for name, kind in data.attributes.items()}
    table = served(serve, settings, data)
    assert set(odd.values()) <= set(table.X)
    assert "oil, old" in set(table.X["a|b, c"].cat.categories)
    assert load_parquet(serve, settings, data, tmp_path).sha256 == table.sha256


def test_rows_without_target_leave_table_and_official_splits(serve, settings) -> None:
    data = houses()
    data.frame.loc[[0, 5], "price"] = np.nan
    table = served(serve, settings, data, official=True)
    assert table.dropped_rows == 2
    assert len(table.y) == 38
    whole = served(serve, settings, houses())
    for split in table.splits:
        assert len(split.train) + len(split.test) == 38
    # Row 4 of the file is row 3 of the table and stays in the test part of fold 0.
    assert 3 in table.splits[0].test
    assert table.y[3] == whole.y[4]


def test_official_splits_are_the_servers(serve, settings) -> None:
    table = served(serve, settings, houses(), official=True)
    assert len(table.splits) == 4
    assert table.splits[1].test.tolist() == list(range(1, 40, 4))
    assert served(serve, settings, houses()).splits == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"target": "prize"}, "target 'prize' is not one of the columns"),
        ({"target": "size,price"}, "target 'size,price' is not one of the columns"),
        ({"ignore": ("price",)}, "also a column to be ignored"),
        ({"target": "stars"}, r"target column 'stars': row 0 holds '\d+', which is not a number"),
        ({"task_type": (1, "Supervised Classification")}, "only supervised regression"),
        ({"data_format": "Sparse_ARFF"}, "sparse ARFF.*--data FILE"),
    ],
    ids=["no column", "two targets", "ignored", "nominal", "classification", "sparse"],
)
def test_task_that_cannot_be_scored_is_refused(serve, settings, change, told) -> None:
    with pytest.raises(DataError, match=told):
        served(serve, settings, replace(houses(), **change))


def test_sparse_arff_with_a_parquet_twin_is_read_from_that(serve, settings) -> None:
    data = replace(houses(), data_format="Sparse_ARFF", parquet=True)
    assert served(serve, settings, data).sha256 == served(serve, settings, houses()).sha256


def test_date_attribute_is_a_sentence_that_names_it(serve, settings) -> None:
    data = houses()
    data.attributes["street"] = "DATE 'yyyy-MM-dd'"
    with pytest.raises(DataError, match="damaged file: Bad"):
        served(serve, settings, data)


def test_inactive_data_set_is_noted(serve, settings) -> None:
    table = served(serve, settings, replace(houses(), status="deactivated"))
    assert "no longer lists" in table.notes[-1]
