"""Closed v2, v2.5 and v2.6: a declared NULL row or column moves nothing, by the public face."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from padding import CALLS, Padded, Table, draw_table, pad, placed, plain

import retrofit
from experiments.studies.audit.follow import follow
from experiments.studies.audit.insertions import insertions, synthetic_table
from experiments.studies.audit.sites import site_rows
from retrofit import CalibrationTable, Host, Patched, Presence
from retrofit.errors import PresenceError, UnsupportedModeError
from retrofit.hosts.clone import alias
from retrofit.hosts.grid.blocks import CELLS, FEATURES

pytestmark = pytest.mark.usefixtures("one_thread")

# float64 carries 16 digits, of which a few hundred sums lose two or three.
FLOAT64 = 1e-12
# float32, in standard deviations of the target.
FLOAT32 = 2e-6
TABLE = draw_table(train=12, test=5, columns=4, batch=3)
WAYS = ("plain", "memory saving", "dictionaries", "cache")


@pytest.fixture(scope="module", params=["tiny_v2", "tiny_v2_5", "tiny_v2_6"])
def host(request: pytest.FixtureRequest) -> Host:
    found: Host = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def closed(host: Host, calibration: list[CalibrationTable]) -> Patched:
    return retrofit.patch(host, "closed", tables=calibration)


def padded(axis: str, place: str, times: int, table: Table = TABLE) -> Padded:
    """The table with ``times`` its own number of rows or columns in addition."""
    generator = torch.Generator().manual_seed(times)
    masks = [
        placed(size, times * size if axis in (name, "all") else 0, 3, place, generator)
        for name, size in zip(("train", "test", "columns"), table.sizes, strict=True)
    ]
    return pad(table, *masks)


def relative_shift(after: torch.Tensor, before: torch.Tensor) -> float:
    return float((after - before).abs().max() / before.abs().max())


def alone(way: str, model: object, table: Table) -> torch.Tensor:
    """Each table of a batch by itself: stock lets batch mates decide on constant columns.

    A cache knows the train rows alone, so with one, stock decides otherwise.
    """
    tables = (Table(table.x[:, b : b + 1], table.y[:, b : b + 1]) for b in range(3))
    parts = [CALLS[way](model, each, None) for each in tables]
    return torch.cat(parts, dim=1)


def test_everywhere_and_in_both_precisions(closed: Patched) -> None:
    for dtype in (torch.float64, torch.float32):
        model, criterion = alias(closed.model).to(dtype), alias(closed.criterion).to(dtype)
        before = plain(model, TABLE.to(dtype), None)
        for axis in ("train", "test", "columns", "all"):
            for place, times in (("end", 1), ("middle", 1), ("interleaved", 3)):
                where = padded(axis, place, times)
                logits = plain(model, where.table.to(dtype), where.presence)
                assert torch.isnan(where.null(logits)).all()
                after = where.own(logits)
                if dtype == torch.float64:
                    assert relative_shift(after, before) <= FLOAT64, (axis, place)
                moved = float((criterion.mean(after) - criterion.mean(before)).abs().max())
                assert moved <= FLOAT32, (axis, place)


def test_without_the_declaration_it_moves(closed: Patched) -> None:
    model = alias(closed.model).double()
    where = padded("train", "end", 1)
    zeros = Table(
        *(x.nan_to_num(0.0, 0.0, 0.0).clamp(-8, 8) for x in (where.table.x, where.table.y))
    )
    assert relative_shift(where.own(plain(model, zeros, None)), plain(model, TABLE, None)) > 1e-2


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_calling_and_constant_columns(way: str, closed: Patched) -> None:
    """A NULL test row cannot make a constant column vary, nor a batch mate, nor a NULL column."""
    model = alias(closed.model).double()
    x = TABLE.x.clone()
    x[:, 0, 1], x[:, 1, :2] = 2.5, 0.0
    x[:12, 2, 3] = 1.0
    for table in (TABLE, Table(x, TABLE.y)):
        where, before = padded("all", "interleaved", 2, table), alone(way, model, table)
        logits = CALLS[way](model, where.table, where.presence)
        assert torch.isnan(where.null(logits)).all()
        assert relative_shift(where.own(logits), before) <= FLOAT64


def test_null_tokens_are_zero_after_every_stage(closed: Patched) -> None:
    model, table = alias(closed.model).double(), synthetic_table()
    for where in insertions(table):
        rows = follow("closed", model, table, where, "raw garbage")
        assert len(rows) >= 4
        # The last row is that of the logits, which are NaN where NULL.
        assert all(row.null == 0 for row in rows[:-1]), where.name
        assert all(row.relative_shift <= FLOAT64 for row in rows), where.name


def test_a_null_test_row_beside_a_cache_has_no_target(closed: Patched) -> None:
    """A cache that was built beside one NULL test row serves rows that are there."""
    model, train = alias(closed.model).double(), len(TABLE.y)
    before = plain(model, TABLE, None)
    with torch.inference_mode():
        with retrofit.declaring(Presence(test_rows=[False])):
            _, cache = model(TABLE.x[: train + 1], TABLE.y, return_kv_cache=True)
        after = model(TABLE.x[train:], TABLE.y, kv_cache=cache.to("cpu"), x_is_test_only=True)
        assert relative_shift(after, before) <= FLOAT64
        other = retrofit.declaring(Presence(columns=[True, True, False, True]))
        with other, pytest.raises(PresenceError, match="differ from those that the cache"):
            model(TABLE.x[train:], TABLE.y, kv_cache=cache, x_is_test_only=True)


def test_a_cache_without_nulls_takes_null_test_rows(closed: Patched) -> None:
    model, train = alias(closed.model).double(), len(TABLE.y)
    with torch.inference_mode():
        _, cache = model(TABLE.x[:train], TABLE.y, return_kv_cache=True)
        with retrofit.declaring(Presence(test_rows=[True, False, True, True, True])):
            after = model(TABLE.x[train:], TABLE.y, kv_cache=cache, x_is_test_only=True)
    assert torch.isnan(after[1]).all()
    kept = [0, 2, 3, 4]
    assert relative_shift(after[kept], plain(model, TABLE, None)[kept]) <= FLOAT64


def test_the_estimator_and_tables_in_one_pass(
    closed: Patched, host: Host, table: tuple[np.ndarray, ...], calibration: list[CalibrationTable]
) -> None:
    X, y, X_test = table
    settings = {"n_estimators": 2, "random_state": 0, "device": "cpu"}

    def predict(patched: Host, of: tuple[np.ndarray, ...], **more: object) -> np.ndarray:
        return patched.regressor(**settings, **more).fit(of[0], of[1]).predict(of[2])

    full = retrofit.patch(host, "full", tables=calibration)
    assert np.array_equal(predict(closed, table), predict(full, table))
    assert not np.array_equal(predict(full, table), predict(host, table))

    rows, columns = np.ones(46, bool), np.array([1, 1, 0, 1, 1, 1, 0], bool)
    rows[[3, 20, 21, 43, 44, 45]] = False
    there = np.array([True, False] + [True] * 8)
    padded_X, padded_y, padded_test = np.full((46, 7), 1e30), np.full(46, -7.7), np.ones((10, 7))
    padded_X[np.ix_(rows, columns)], padded_y[rows] = X, y
    padded_test[np.ix_(there, columns)] = X_test
    for more in ({}, {"fit_mode": "fit_with_cache"}):
        regressor = closed.regressor(**settings, **more)
        regressor.fit(padded_X, padded_y, presence=Presence(train_rows=rows, columns=columns))
        predicted = regressor.predict(padded_test, test_rows=there)
        moved = np.abs(predicted[there] - predict(closed, table, **more)).max()
        assert moved <= FLOAT32 * y.std()
        assert np.isnan(predicted[~there]).all()

    tables = [
        (X[:n, :c], y[:n], X_test[:m, :c]) for n, c, m in ((40, 5, 9), (30, 3, 4), (22, 4, 7))
    ]
    together = retrofit.predict_tables(closed, tables, **settings)
    for each, predicted in zip(tables, together, strict=True):
        assert np.abs(predicted - predict(closed, each)).max() <= FLOAT32 * y.std()


def test_more_keys_than_v2_reads_are_refused(
    tiny_v2: Host, calibration: list[CalibrationTable]
) -> None:
    model = retrofit.patch(tiny_v2, "closed", tables=calibration).model
    x = TABLE.x.float()
    with pytest.raises(UnsupportedModeError, match="reads 'main' of x and nothing else"):
        model({"main": x, "more": x}, TABLE.y.float())


@pytest.mark.parametrize("grid", ["tiny_v2", "tiny_v2_6"])
def test_the_audit_sees_what_stock_does(grid: str, request: pytest.FixtureRequest) -> None:
    """v2.6 leaves columns of zeros out; as missing values they are tokens, which it wakes."""
    model = alias(request.getfixturevalue(grid).model).double()
    rows = {row.site: row for row in site_rows("stock", model, synthetic_table(), FLOAT64)}
    verdicts = {name.replace("blocks.0.", ""): row.verdict for name, row in rows.items()}
    for attention in (FEATURES, CELLS):
        assert verdicts[attention] == "revives and dilutes"
    assert verdicts["mlp"] == verdicts["layernorm_mha1"] == "absorbs"
    grouping = "_pad_and_group_features" if grid == "tiny_v2" else "_preprocess_and_embed_features"
    assert verdicts[grouping] == ("dilutes" if grid == "tiny_v2" else "absorbs")
    for where in insertions(synthetic_table()):
        for entry in ("raw zero", "raw missing", "carrier", "own"):
            assert follow("stock", model, synthetic_table(), where, entry)
