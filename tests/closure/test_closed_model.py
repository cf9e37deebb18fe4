"""A declared NULL row or column moves no present row, in every way of calling the model."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch
from padding import CALLS, Padded, Table, ask, draw_table, pad, placed, plain
from torch._dynamo.utils import counters

import retrofit
from experiments.studies.audit.follow import follow
from experiments.studies.audit.insertions import insertions, synthetic_table
from retrofit import CalibrationTable, Host, Patched
from retrofit.hosts.clone import alias

# float64 carries 16 digits, of which a few hundred sums lose two or three.
FLOAT64 = 1e-12
# float32, in standard deviations of the target.
FLOAT32 = 2e-6
TABLE = draw_table(train=12, test=5, columns=4, batch=3)


def padded(axis: str, place: str, times: int, table: Table = TABLE, **how: object) -> Padded:
    """The table with ``times`` its own number of rows or columns in addition."""
    generator = torch.Generator().manual_seed(times)
    masks = [
        placed(size, times * size if axis in (name, "all") else 0, 3, place, generator)
        for name, size in zip(("train", "test", "columns"), table.sizes, strict=True)
    ]
    return pad(table, *masks, **how)


def relative_shift(after: torch.Tensor, before: torch.Tensor) -> float:
    return float((after - before).abs().max() / before.abs().max())


@pytest.mark.parametrize("host_name", ["tiny_closed", "tiny_v3_5_closed", "mini_closed"])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("place", ["end", "middle", "interleaved"])
@pytest.mark.parametrize("axis", ["train", "test", "columns", "all"])
def test_float64_and_float32(
    axis: str, place: str, times: int, host_name: str, request: pytest.FixtureRequest
) -> None:
    closed: Patched = request.getfixturevalue(host_name)
    where = padded(axis, place, times)
    for dtype, tolerance in ((torch.float64, FLOAT64), (torch.float32, FLOAT32)):
        model = alias(closed.model).to(dtype)
        criterion = alias(closed.criterion).to(dtype)
        before = plain(model, TABLE.to(dtype), None)
        logits = plain(model, where.table.to(dtype), where.presence)
        after = where.own(logits)
        assert torch.isnan(where.null(logits)).all()
        if dtype == torch.float64:
            assert relative_shift(after, before) <= tolerance
        # The criterion's targets have standard deviation 1.
        moved = float((criterion.mean(after) - criterion.mean(before)).abs().max())
        scale = float(criterion.mean(before).abs().max().clamp(min=1.0))
        assert moved <= tolerance * scale


@pytest.mark.parametrize("axis", ["train", "columns"])
def test_without_the_declaration_it_moves(axis: str, closed: Patched) -> None:
    model = alias(closed.model).double()
    where = padded(axis, "end", 1, fill=0.0)
    before, after = plain(model, TABLE, None), where.own(plain(model, where.table, None))
    assert relative_shift(after, before) > 1e-3


@pytest.mark.parametrize("call", CALLS)
def test_every_way_of_calling(call: str, closed: Patched) -> None:
    """Masks differ by batch element; each way is compared with itself and with the plain one."""
    model = alias(closed.model).double()
    where = padded("all", "interleaved", 2)
    before = CALLS[call](model, TABLE, None)
    logits = CALLS[call](model, where.table, where.presence)
    assert relative_shift(where.own(logits), before) <= FLOAT64
    assert relative_shift(before, plain(model, TABLE, None)) <= FLOAT64
    assert torch.isnan(where.null(logits)).all()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["one row many times", "constant but for gaps"])
def test_columns_of_equal_numbers(kind: str, call: str, closed: Patched) -> None:
    """Stock divides them by what rounding left of their deviation: every bit of it counts."""
    x, y = TABLE.x.clone(), TABLE.y.clone()
    if kind == "one row many times":
        x[: len(y)], y[:] = x[3], y[3]
    else:
        x[: len(y)] = x[3].where(torch.isfinite(x[: len(y)]), torch.nan)
        x[1:3] = torch.nan
    table = Table(x, y)
    model = alias(closed.model).double()
    before = plain(model, table, None)
    for seed, place in enumerate(["end", "middle", "interleaved"]):
        where = padded("all", place, 1 + seed, table)
        after = where.own(CALLS[call](model, where.table, where.presence))
        assert relative_shift(after, before) <= FLOAT64


def test_quantised_cache(closed: Patched) -> None:
    """int8 holds keys and values to 1/127 of their largest entry, with or without NULL rows."""
    model = alias(closed.model)
    where = padded("all", "interleaved", 2).table, padded("all", "interleaved", 2)
    before = plain(model, TABLE.to(torch.float32), None)
    train = where[0].y.shape[0]
    table, presence = where[0].to(torch.float32), where[1].presence
    with torch.inference_mode():
        with retrofit.declaring(retrofit.Presence(presence.train_rows, None, presence.columns)):
            _, cache = ask(model, table.x[:train], table.y, return_kv_cache=True)
        with retrofit.declaring(retrofit.Presence(test_rows=presence.test_rows)):
            logits = ask(
                model, table.x[train:], table.y, kv_cache=cache.quantize(), x_is_test_only=True
            )
    shift = relative_shift(where[1].own(logits), before)
    assert 0 < shift <= 0.02


def test_autocast_adds_no_error(closed: Patched) -> None:
    """bfloat16 keeps 8 bits: the plain table is off too, and a padded one no more than twice."""
    model = alias(closed.model)
    table, where = TABLE.to(torch.float32), padded("all", "interleaved", 2)
    exact = plain(model, table, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = plain(model, table, None)
        logits = plain(model, where.table.to(torch.float32), where.presence)
    error = (rounded - exact).abs().max()
    assert error > 1e-4, "autocast did nothing"
    assert (where.own(logits) - exact).abs().max() <= 2 * error


def test_null_tokens_are_zero_after_every_stage(closed: Patched) -> None:
    model, table = alias(closed.model).double(), synthetic_table()
    for where in insertions(table):
        rows = follow("closed", model, table, where, "raw garbage")
        assert len(rows) == len(closed.generation.stages(closed.architecture_config)) + 1
        assert all(row.null == 0 for row in rows), where.name
        assert all(row.relative_shift <= FLOAT64 for row in rows), where.name


@pytest.mark.parametrize("fit_mode", ["fit_preprocessors", "fit_with_cache"])
@pytest.mark.parametrize("n_estimators", [1, 8])
def test_without_nulls_it_is_full_to_the_bit(
    n_estimators: int,
    fit_mode: str,
    closed: Patched,
    table: tuple[np.ndarray, ...],
    calibration: list[CalibrationTable],
) -> None:
    X, y, X_test = table
    settings = {"n_estimators": n_estimators, "fit_mode": fit_mode, "random_state": 0}
    full, oa = (retrofit.patch(closed.restore(), v, tables=calibration) for v in ("full", "oa"))
    assert full.config.tau == closed.config.tau
    closed_p, full_p, oa_p = (
        host.regressor(device="cpu", **settings).fit(X, y).predict(X_test)
        for host in (closed, full, oa)
    )
    assert np.array_equal(closed_p, full_p)
    assert not np.array_equal(closed_p, oa_p)


def test_declaring_everything_present_changes_rounding_only(closed: Patched) -> None:
    model = alias(closed.model).double()
    train, test, columns = (torch.ones(3, size, dtype=torch.bool) for size in TABLE.sizes)
    presence = retrofit.Presence(train, test, columns)
    before = plain(model, TABLE, None)
    assert relative_shift(plain(model, TABLE, presence), before) <= FLOAT64


def test_the_full_output_flags_null_test_rows(closed: Patched) -> None:
    where = padded("test", "middle", 1)
    with torch.inference_mode(), retrofit.declaring(where.presence):
        model = alias(closed.model).double()
        output = ask(model, where.table.x, where.table.y, only_return_standard_out=False)
    assert torch.equal(output["test_present"].T, where.test)
    assert torch.equal(torch.isnan(output["standard"]).all(-1).T, ~where.test)
    assert not output["test_embeddings"].transpose(0, 1)[~where.test].any()


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        ("tabpfn_v3", {"use_rope": False}),
        ("tabpfn_v3", {"feat_agg_num_blocks": 1}),
        ("tabpfn_v3", {"icl_num_kv_heads_test": 1}),
        ("tabpfn_v3_5", {"feat_agg_num_blocks": 1, "icl_num_kv_heads_test": None}),
        ("tabpfn_v3_5", {"cell_ecdf_num_buckets": 5, "cell_embed_row_chunk_size": 7}),
    ],
    ids=str,
)
def test_other_architectures(
    architecture: str,
    settings: dict[str, object],
    build_host: object,
    calibration: list[CalibrationTable],
) -> None:
    host = build_host(architecture, **settings)
    model = alias(retrofit.patch(host, "closed", tables=calibration).model)
    model = model.double()
    where = padded("all", "interleaved", 1)
    for call in ("plain", "cache", "column chunks"):
        logits = CALLS[call](model, where.table, where.presence)
        assert relative_shift(where.own(logits), plain(model, TABLE, None)) <= FLOAT64


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "host_name", ["default_v2", "default_v2_5", "default_v2_6", "default_host", "default_v3_5"]
)
def test_default_size(
    host_name: str, calibration: list[CalibrationTable], request: pytest.FixtureRequest
) -> None:
    host = request.getfixturevalue(host_name)
    closed = retrofit.patch(host, "closed", tables=calibration)
    places = [("all", "end"), ("all", "middle"), ("all", "interleaved")]
    single = [(axis, "interleaved") for axis in ("train", "test", "columns")]
    for dtype in (torch.float64, torch.float32):
        model, criterion = alias(closed.model).to(dtype), alias(closed.criterion).to(dtype)
        before = criterion.mean(plain(model, TABLE.to(dtype), None))
        wide = dtype == torch.float64
        # Relative in float64; in float32 in standard deviations of the target, which is one.
        tolerance = FLOAT64 * before.abs().max() if wide else FLOAT32
        for axis, place in (*places, *single) if wide else places:
            where = padded(axis, place, 2)
            logits = plain(model, where.table.to(dtype), where.presence)
            moved = (criterion.mean(where.own(logits)) - before).abs().max()
            assert moved <= tolerance, (dtype, axis, place)
            assert torch.isnan(where.null(logits)).all()


def assert_inert_when_compiled(closed: Patched) -> None:
    """The compiled regions see the flags of NULL cells as tensors; sizes are those of a padding."""
    model = alias(closed.model)
    options = dataclasses.replace(
        model.get_default_performance_options(), enable_torch_compile=True
    )
    where = padded("all", "interleaved", 1)
    table = where.table.to(torch.float32)
    before = plain(model, TABLE.to(torch.float32), None)
    torch._dynamo.reset()
    counters.clear()
    with torch.inference_mode(), retrofit.declaring(where.presence):
        logits = ask(model, table.x, table.y, performance_options=options)
    assert counters["frames"]["ok"], "nothing was compiled"
    assert relative_shift(where.own(logits), before) <= 1e-5
    assert torch.isnan(where.null(logits)).all()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_traced(tiny_closed: Patched, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile's tracing, without the code generation that takes minutes.

    v3.5 keeps what it compiled first for the whole process.
    """
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    assert_inert_when_compiled(tiny_closed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_compiled(closed: Patched) -> None:
    assert_inert_when_compiled(closed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_compiled_at_default_size(default_host: Host, calibration: list[CalibrationTable]) -> None:
    assert_inert_when_compiled(retrofit.patch(default_host, "closed", tables=calibration))


@pytest.mark.parametrize("call", CALLS)
def test_missing_cells_of_test_rows(call: str, tiny_closed: Patched) -> None:
    """Columns far from zero, so that what a gap is filled with counts."""
    train = len(TABLE.y)
    x = TABLE.x * 3.0 + torch.arange(5.0, 45.0, 10.0, dtype=torch.float64)
    x[train:].masked_fill_(torch.eye(5, 4, dtype=torch.bool)[:, None], torch.nan)
    x[-1, :, 1], x[-1, :, 2] = torch.inf, -torch.inf
    table, model = Table(x, TABLE.y), alias(tiny_closed.model).double()
    before = plain(model, table, None)
    where = padded("all", "interleaved", 2, table)
    after = where.own(CALLS[call](model, where.table, where.presence))
    assert relative_shift(after, before) <= FLOAT64
    filled = Table(x.where(torch.isfinite(x), 0.0), TABLE.y)
    assert relative_shift(plain(model, filled, None), before) > 1e-3
