"""What a declaration of NULL rows and columns refuses, and what a closed host refuses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from padding import CALLS, draw_table, pad, placed, plain

import retrofit
from retrofit import CalibrationTable, Host, Patched, Presence, declaring
from retrofit.errors import NonFiniteOutputError, PresenceError, UnsupportedModeError
from retrofit.hosts.clone import alias
from retrofit.hosts.declare import declared

TABLE = draw_table(train=8, test=3, columns=4, batch=2)


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ({"train_rows": [1, 0, 1]}, "must be boolean"),
        ({"columns": np.ones((2, 3, 4), bool)}, "one axis, or two"),
        ({"train_rows": [[True], [False]]}, "leaves a table without any"),
        ({"columns": [False, False]}, "leaves a table without any"),
        ({"train_rows": np.ones((2, 3), bool), "columns": np.ones((3, 3), bool)}, "batch size"),
    ],
)
def test_an_impossible_declaration_is_refused(masks: dict[str, object], message: str) -> None:
    with pytest.raises(PresenceError, match=message):
        Presence(**masks)


def test_no_test_row_need_be_present() -> None:
    assert not Presence(test_rows=[False, False]).test_rows.any()


def test_a_declaration_holds_inside_its_block_only() -> None:
    presence = Presence(columns=[True, False])
    with declaring(presence):
        assert declared() is presence
        with declaring(None):
            assert declared() is None
        assert declared() is presence
    assert declared() is None


@pytest.mark.parametrize(
    "masks", [{"train_rows": [True] * 9}, {"test_rows": [True]}, {"columns": [[True] * 4] * 3}]
)
def test_a_declaration_of_another_shape_is_refused(
    masks: dict[str, object], tiny_closed: Patched
) -> None:
    with pytest.raises(PresenceError, match="has shape"):
        plain(alias(tiny_closed.model).double(), TABLE, Presence(**masks))


def test_a_call_without_train_rows_is_refused(tiny_closed: Patched) -> None:
    with declaring(Presence(columns=[True] * 4)), pytest.raises(PresenceError, match="no train"):
        alias(tiny_closed.model).double()(TABLE.x, None)


@pytest.mark.parametrize("variant", ["oa", "full"])
def test_a_host_that_would_read_nulls_refuses(
    variant: str, tiny_host: Host, calibration: list[CalibrationTable]
) -> None:
    model = retrofit.patch(tiny_host, variant, tau=1.0, tables=calibration).model
    with pytest.raises(UnsupportedModeError, match="patch with 'closed'"):
        plain(alias(model).double(), TABLE, Presence(columns=[True] * 4))


def test_presence_one_refuses_nulls_and_equals_stock_without(
    tiny_host: Host, calibration: list[CalibrationTable]
) -> None:
    wired = retrofit.patch(tiny_host, "closed", presence="one", eps_den=0.0, tables=calibration)
    model, stock = alias(wired.model).double(), alias(tiny_host.model).double()
    before = plain(stock, TABLE, None)
    for call in CALLS.values():
        assert (call(model, TABLE, None) - before).abs().max() <= 1e-12 * before.abs().max()
    with pytest.raises(UnsupportedModeError, match="presence is forced to 1"):
        plain(model, TABLE, Presence(columns=[True] * 4))


def test_gradient_checkpointing_refuses_null_rows(tiny_closed: Patched) -> None:
    model = alias(tiny_closed.model).double()
    options = dataclasses.replace(
        model.get_default_performance_options(), force_recompute_layer=True
    )
    with (
        declaring(Presence(columns=[True] * 4)),
        pytest.raises(UnsupportedModeError, match="check"),
    ):
        model(TABLE.x, TABLE.y, performance_options=options)


@pytest.mark.parametrize("name", ["train_rows", "columns"])
def test_a_cache_does_not_change_its_mind(name: str, tiny_closed: Patched) -> None:
    model, train = alias(tiny_closed.model).double(), len(TABLE.y)
    masks = {"train_rows": [True] * 7 + [False], "columns": [True, False, True, True]}
    other = {"train_rows": [False] + [True] * 7, "columns": [True, True, False, True]}
    with torch.inference_mode(), declaring(Presence(**masks)):
        _, cache = model(TABLE.x[:train], TABLE.y, return_kv_cache=True)
    with torch.inference_mode():
        same = model(TABLE.x[train:], TABLE.y, kv_cache=cache, x_is_test_only=True)
        with declaring(Presence(**{name: masks[name]})):
            again = model(TABLE.x[train:], TABLE.y, kv_cache=cache, x_is_test_only=True)
        assert torch.equal(same, again)
        with declaring(Presence(**{name: other[name]})), pytest.raises(PresenceError, match=name):
            model(TABLE.x[train:], TABLE.y, kv_cache=cache, x_is_test_only=True)


def test_a_cache_without_nulls_takes_no_new_null_column(tiny_closed: Patched) -> None:
    model, train = alias(tiny_closed.model).double(), len(TABLE.y)
    with torch.inference_mode():
        _, cache = model(TABLE.x[:train], TABLE.y, return_kv_cache=True)
        before = model(TABLE.x[train:], TABLE.y, kv_cache=cache, x_is_test_only=True)
        with declaring(Presence(test_rows=[True, False, True])):
            after = model(TABLE.x[train:], TABLE.y, kv_cache=cache, x_is_test_only=True)
        assert torch.isnan(after[1]).all()
        assert (after[[0, 2]] - before[[0, 2]]).abs().max() < 1e-12
        null_column = Presence(columns=[True, True, True, False])
        with declaring(null_column), pytest.raises(PresenceError, match="columns"):
            model(TABLE.x[train:], TABLE.y, kv_cache=cache, x_is_test_only=True)


def test_undeclared_nan_logits_are_still_refused(tiny_closed: Patched) -> None:
    """The NaN of NULL test rows does not open the door to any other."""
    model = alias(tiny_closed.model).double()
    generator = torch.Generator().manual_seed(0)
    masks = [placed(size, 2, 2, "end", generator) for size in TABLE.sizes]
    where = pad(TABLE, *masks)
    assert torch.isnan(plain(model, where.table, where.presence)).any()
    weight = model.icl_blocks[1].mlp[2].weight
    model.icl_blocks[1].mlp[2].weight = torch.nn.Parameter(
        torch.full_like(weight, torch.nan), requires_grad=False
    )
    with pytest.raises(NonFiniteOutputError):
        plain(model, where.table, where.presence)


def test_default_v3_has_its_known_sites(default_host: Host) -> None:
    """Counts read from the source of tabpfn 9.2.0."""
    plan = retrofit.plan(default_host, "closed")
    assert not plan.problems
    assert not plan.skipped
    assert plan.counts == {
        "attention": 33,
        "ffn": 33,
        "norm": 74,
        "injection": 9,
        "statistic": 30,
    }
    assert plan.streams == retrofit.plan(default_host, "full").streams


def test_a_closed_host_is_saved_loaded_and_restored(
    tiny_closed: Patched, tiny_host: Host, tmp_path: object
) -> None:
    generator = torch.Generator().manual_seed(0)
    masks = [placed(size, 2, 2, "interleaved", generator) for size in TABLE.sizes]
    where = pad(TABLE, *masks)
    loaded = retrofit.load_host(tiny_closed.save(tmp_path / "tiny-v3-closed.safetensors"))
    assert isinstance(loaded, Patched)
    assert loaded.variant == "closed"
    before = plain(alias(tiny_closed.model).double(), where.table, where.presence)
    after = plain(alias(loaded.model).double(), where.table, where.presence)
    assert torch.equal(before.nan_to_num(), after.nan_to_num())
    stock = plain(alias(loaded.restore().model).double(), TABLE, None)
    assert torch.equal(stock, plain(alias(tiny_host.model).double(), TABLE, None))
    assert not torch.equal(stock, plain(alias(loaded.model).double(), TABLE, None))
