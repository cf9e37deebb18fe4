"""What a mask may be, and that whoever hands one over may go on using it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from padding import draw_table, plain

from retrofit import Patched, Presence
from retrofit.errors import PresenceError
from retrofit.hosts.clone import alias

if TYPE_CHECKING:
    from collections.abc import Callable

MASK = [True, False, True, True]
FRAME = pd.DataFrame({"y": [1.0, 9.0, 2.0, 3.0, 8.0]}, index=[4, 3, 2, 1, 0])
SERIES = pd.Series(MASK)


@pytest.mark.parametrize(
    "given",
    [
        np.array(MASK),
        np.array(MASK[::-1])[::-1],
        np.array(MASK, dtype=object),
        torch.tensor(MASK),
        tuple(MASK),
        [np.bool_(value) for value in MASK],
        SERIES.set_axis(list("abcd")),
        SERIES.set_axis([3, 2, 1, 0]),
        SERIES.set_axis([7, 8, 9, 10]),
        SERIES.astype("boolean"),
        SERIES.astype(object),
        FRAME[FRAME.y != 8.0].y < 5,
        np.ma.array(MASK),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_mask_counts_by_position(given: object) -> None:
    assert Presence(train_rows=given).train_rows.tolist() == MASK
    assert Presence(columns=given).columns.tolist() == MASK


@pytest.mark.parametrize(
    "given",
    [
        [0.0, -np.inf, 0.0],
        torch.tensor([0.0, -torch.inf]),
        np.array([1, 0]),
        ["True", "False"],
        np.array([True, None]),
        pd.Series([True, pd.NA], dtype="boolean"),
        pd.Series([True, None]),
        pd.Series(["a", "b"], index=["a", "b"]),
        [[True], [True, False]],
        {"a": True},
        {True, False},
        (value for value in MASK),
        scipy.sparse.eye_array(3) > 0,
        torch.tensor(MASK).to_sparse(),
        np.ma.array(MASK, mask=[False, False, False, True]),
        torch.tensor(MASK, device="meta").to(torch.float32),
        object(),
        "mask",
        True,
        [],
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_is_no_mask_is_refused(given: object) -> None:
    for name in ("train_rows", "test_rows", "columns"):
        with pytest.raises(PresenceError, match=name):
            Presence(**{name: given})


@pytest.mark.parametrize("make", [np.array, torch.tensor, list, pd.Series])
def test_a_mask_is_copied(make: Callable[[list[bool]], object]) -> None:
    masks = {name: make(MASK) for name in ("train_rows", "test_rows", "columns")}
    presence = Presence(**masks)
    for mask in masks.values():
        mask[1] = True
        assert all(mask)
    for name in masks:
        assert getattr(presence, name).tolist() == MASK


def test_a_reused_mask_changes_no_declaration(tiny_closed: Patched) -> None:
    """A loop that leaves one row out after the other declares each with the same array."""
    table = draw_table(train=6, test=2, columns=3, batch=1)
    model, train = alias(tiny_closed.model).double(), np.ones(6, bool)
    declared, apart = [], []
    for row in range(6):
        train[row] = False
        declared.append(Presence(train_rows=train))
        apart.append(plain(model, table, Presence(train_rows=train.copy())))
        train[row] = True
    for presence, expected in zip(declared, apart, strict=True):
        assert torch.equal(plain(model, table, presence), expected)
    assert not torch.equal(apart[0], apart[1])
