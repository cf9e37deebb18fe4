"""The normaliser: one table, one form, one hash, and one sentence for what cannot be used."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from experiments.data import make_table
from experiments.data.table import Table
from experiments.errors import DataError

NAN = float("nan")


def table_of(frame: pd.DataFrame, **changes: object) -> Table:
    settings = {"name": "toy", "target": "y", "licence": "ours", "source": "test"} | changes
    return make_table(frame, **settings)


def feature(values: object, dtype: object = None) -> pd.Series:
    column = pd.Series(values, dtype=dtype)
    return table_of(pd.DataFrame({"x": column, "y": np.arange(len(column)) * 1.0})).X["x"]


def test_numbers_become_float64_and_text_an_unordered_category() -> None:
    frame = pd.DataFrame(
        {
            "whole": np.array([1, 2, 255], dtype="uint8"),
            "yes": [True, False, True],
            "word": ["b", "a", "b"],
            "gap": [1.5, NAN, 2.5],
            "y": [1, 2, 3],
        }
    )
    table = table_of(frame)
    assert [str(dtype) for dtype in table.X.dtypes] == ["float64", "float64", "category", "float64"]
    assert table.categorical == ("word",)
    assert list(table.X["word"].cat.categories) == ["a", "b"]
    assert not table.X["word"].cat.ordered
    assert table.X["yes"].tolist() == [1.0, 0.0, 1.0]
    assert np.isnan(table.X["gap"][1])
    assert table.y.dtype == np.float64


BACKENDS = {
    "plain": {"n": "float64", "w": object, "b": "float64"},
    "nullable": {"n": "Int64", "w": "string", "b": "boolean"},
    "arrow": {"n": "int64[pyarrow]", "w": "string[pyarrow]", "b": "bool[pyarrow]"},
    "category": {"n": "float32", "w": "category", "b": object},
    "objects": {"n": object, "w": object, "b": object},
}


def backend_frame(kind: str) -> pd.DataFrame:
    dtypes = BACKENDS[kind]
    if kind == "arrow":
        pytest.importorskip("pyarrow", reason="pandas' arrow dtypes need pyarrow")
    values = {"n": [3, None, 1], "w": ["b", None, "a"], "b": [True, None, False]}
    columns = {name: pd.Series(values[name], dtype=dtypes[name]) for name in values}
    return pd.DataFrame({**columns, "y": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize("kind", BACKENDS)
def test_hash_and_values_do_not_depend_on_the_dtype_backend(kind: str) -> None:
    expected = table_of(backend_frame("plain"))
    table = table_of(backend_frame(kind))
    pd.testing.assert_frame_equal(table.X, expected.X)
    assert table.sha256 == expected.sha256


@pytest.mark.parametrize(
    "change",
    [
        {"x": [1.0, 2.0, 3.0000000000000004]},
        {"x": [1.0, 2.0, NAN]},
        {"w": ["a", "b", "b"]},
        {"w": ["a", "b", None]},
        {"y": [1.0, 2.0, 4.0]},
    ],
    ids=str,
)
def test_hash_sees_every_cell(change: dict[str, list[object]]) -> None:
    columns = {"x": [1.0, 2.0, 3.0], "w": ["a", "b", "a"], "y": [1.0, 2.0, 3.0]}
    changed = pd.DataFrame(columns | change)
    assert table_of(pd.DataFrame(columns)).sha256 != table_of(changed).sha256


def test_hash_sees_names_order_and_kind_of_columns() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0], "y": [0.0, 1.0]})
    hashes = {
        table_of(frame).sha256,
        table_of(frame[["b", "a", "y"]]).sha256,
        table_of(frame.rename(columns={"a": "c"})).sha256,
        table_of(frame.assign(a=["1", "2"])).sha256,
    }
    assert len(hashes) == 4


def test_negative_zero_and_other_nan_bits_hash_as_zero_and_nan() -> None:
    odd_nan = np.array([0xFFF8000000000001], dtype=np.uint64).view(np.float64)[0]
    plain = pd.DataFrame({"x": [0.0, NAN], "y": [0.0, 1.0]})
    odd = pd.DataFrame({"x": [-0.0, odd_nan], "y": [-0.0, 1.0]})
    assert table_of(odd).sha256 == table_of(plain).sha256


def test_nominal_booleans_and_numbers_are_the_same_text_from_every_file_format() -> None:
    from_arff = feature(pd.Categorical([True, False, True]))
    from_parquet = feature(["True", "False", "True"])
    assert from_arff.tolist() == from_parquet.tolist() == ["True", "False", "True"]
    ordered = pd.Categorical([10, 1, 2], categories=[1, 2, 10], ordered=True)
    assert feature(ordered).tolist() == ["10", "1", "2"]
    assert not feature(ordered).cat.ordered


def test_text_column_of_true_false_and_gaps_becomes_numbers() -> None:
    assert feature([True, NAN, False], object).tolist()[::2] == [1.0, 0.0]


def test_mixed_column_becomes_the_same_text_however_its_numbers_are_typed() -> None:
    frame = pd.DataFrame({"x": pd.Series([1, "low", 2.0, 2.5], dtype=object), "y": range(4)})
    table = table_of(frame)
    assert table.X["x"].tolist() == ["1", "low", "2", "2.5"]
    assert table.notes == ("column 'x' mixes words and numbers: read as text",)
    floats = frame.assign(x=pd.Series([1.0, "low", np.int8(2), Decimal("2.5")], dtype=object))
    assert table_of(floats).sha256 == table.sha256


def test_empty_column_stays_as_numbers_without_values() -> None:
    assert np.isnan(feature([None, None, None], object)).all()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1.0, np.inf, 2.0], "infinite"),
        (pd.to_datetime(["2020-01-01", "2020-01-02", None]), "datetime64"),
        (pd.to_datetime(["2020-01-01", None, None]).tz_localize("UTC"), "datetime64"),
        (pd.to_timedelta([1, 2, 3], unit="s"), "timedelta64"),
        (pd.period_range("2020", periods=3, freq="Y"), "period"),
        ([datetime.date(2020, 1, 1), None, None], "datetime.date"),
        (np.array([1j, 2j, 3j]), "complex"),
        ([[1], [2], [3]], "list"),
    ],
    ids=["inf", "date", "zone", "delta", "period", "date object", "complex", "list"],
)
def test_unusable_column_is_refused_by_name(values: object, told: str) -> None:
    with pytest.raises(DataError, match=r"(?s)column 'x'.*" + told):
        feature(values)


def test_sparse_column_equals_its_dense_twin() -> None:
    dense = [0.0, 0.0, 3.0]
    assert feature(pd.arrays.SparseArray(dense)).tolist() == dense


def test_rows_without_target_are_dropped_and_counted() -> None:
    frame = pd.DataFrame({"x": ["only here", "a", "b"], "y": [NAN, 1.0, 2.0]})
    table = table_of(frame)
    assert table.y.tolist() == [1.0, 2.0]
    assert table.dropped_rows == 1
    assert table.notes == ("1 row(s) without a target value left out",)
    assert list(table.X["x"].cat.categories) == ["a", "b"]
    assert table.sha256 == table_of(frame.iloc[1:]).sha256


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        ({"x": [1], "y": ["$1,000"]}, r"target column 'y': row 0 holds '\$1,000'"),
        ({"x": [1], "y": pd.Categorical(["high"])}, "row 0 holds 'high'"),
        ({"x": [1], "y": [np.inf]}, "column 'y' holds 1 infinite"),
        ({"x": [1], "y": [NAN]}, "no row has a value in the target"),
        ({"y": [1.0]}, "no feature column"),
        ({"x": [1], "y1": [1.0]}, "no column 'y'; did you mean y1"),
        ({"x": [], "y": []}, "no row has a value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unusable_table_is_refused(frame: dict[str, object], told: str) -> None:
    with pytest.raises(DataError, match=told):
        table_of(pd.DataFrame(frame))


def test_repeated_column_names_are_refused() -> None:
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["x", "x", "y"])
    with pytest.raises(DataError, match="more than one column named x"):
        table_of(frame)


def test_callers_frame_is_left_alone_and_target_cannot_be_written() -> None:
    frame = pd.DataFrame({"x": [-0.0, NAN], "w": ["b", "a"], "y": [1.0, NAN]})
    before = frame.copy(deep=True)
    table = table_of(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert np.signbit(frame["x"].to_numpy()[0])
    with pytest.raises(ValueError, match="read-only"):
        table.y[0] = 5.0
