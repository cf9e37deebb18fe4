"""The parts of a closed host beside what stock computes on the table without its NULL parts."""

from __future__ import annotations

import pytest
import torch
from padding import draw_table
from tabpfn.architectures.tabpfn_v3 import RotaryEmbedding

from retrofit import Patched
from retrofit.hosts.clone import alias
from retrofit.hosts.prenorm.closed import group_members
from retrofit.hosts.rotary import rotate_by_rank


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 8])
def test_groups_are_those_of_the_table_without_null_columns(columns: int) -> None:
    generator = torch.Generator().manual_seed(columns)
    present_BC = torch.rand(4, columns + 3, generator=generator).argsort(1) < columns
    members_BCG = group_members(present_BC, 3)
    value_BC = torch.arange(columns + 3).expand(4, -1)
    for mask, members, value in zip(present_BC, members_BCG, value_BC, strict=True):
        own = value[mask]
        expected = torch.stack([own.roll(-(2**step)) for step in range(3)], dim=-1)
        assert torch.equal(value[members[mask]], expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_positions_are_those_of_the_row_without_null_columns(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    rope = RotaryEmbedding(dim=8, theta=100_000)
    t_BSHD = torch.randn(3, 7, 2, 8, generator=generator).to(dtype)
    present_BS = torch.rand(3, 7, generator=generator).argsort(1) < 5
    rotated_BSHD = rotate_by_rank(rope, t_BSHD, present_BS)
    assert rotated_BSHD.dtype == dtype
    for t, rotated, mask in zip(t_BSHD, rotated_BSHD, present_BS, strict=True):
        expected = rope.rotate_queries_or_keys(t[mask].transpose(0, 1)).transpose(0, 1)
        torch.testing.assert_close(rotated[mask], expected, atol=1e-6, rtol=1e-6)
    by_index = rope.rotate_queries_or_keys(t_BSHD.transpose(1, 2)).transpose(1, 2)
    assert not torch.allclose(rotated_BSHD, by_index, atol=1e-2)
    everywhere = torch.ones_like(present_BS)
    assert torch.equal(rotate_by_rank(rope, t_BSHD, everywhere), by_index)


@pytest.mark.parametrize("train", [1, 2, 9])
def test_statistics_are_those_of_the_table_without_null_rows(
    train: int, tiny_closed: Patched
) -> None:
    model = alias(tiny_closed.model).double()
    table = draw_table(train, 1, columns=5, batch=2, seed=train)
    x = table.x[:train].where(torch.isfinite(table.x[:train]), torch.nan)
    x[:, 1, 3] = torch.nan
    x[:, 0, 4] = 2.5
    present_BN = torch.rand(2, train + 4, generator=torch.Generator().manual_seed(0)).argsort(1)
    present_BN = present_BN < train
    cells = present_BN.T[..., None].expand(-1, -1, 5)
    padded = torch.zeros(train + 4, 2, 5, dtype=torch.float64)
    for element in range(2):
        padded[present_BN[element], element] = x[:, element]
    _, _, expected = model._preprocess_raw(x, train)
    statistics = model._statistics(padded, cells)
    for name in ("mean", "std"):
        torch.testing.assert_close(statistics[name], expected[name], atol=1e-13, rtol=1e-12)
    counted = model._statistics(padded, torch.ones_like(cells))
    assert not torch.allclose(counted["std"], expected["std"], rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_statistics_of_equal_numbers_are_stock_s_to_the_bit(
    dtype: torch.dtype, tiny_closed: Patched
) -> None:
    """Their deviation is 0 or a rounding error, by the order of the sums."""
    model = alias(tiny_closed.model).to(dtype)
    generator = torch.Generator().manual_seed(0)
    rounded_off = 0
    for train in range(2, 30):
        row = torch.randn(1, 3, 5, generator=generator, dtype=torch.float64).to(dtype)
        x = row.repeat(train, 1, 1)
        x[torch.rand(x.shape, generator=generator) < 0.3] = torch.nan
        _, _, expected = model._preprocess_raw(x, train)
        rows = torch.rand(3, 2 * train, generator=generator).argsort(1) < train
        columns = torch.rand(3, 9, generator=generator).argsort(1) < 5
        cells = (rows[:, :, None] & columns[:, None]).transpose(0, 1)
        padded = torch.zeros(2 * train, 3, 9, dtype=dtype)
        for element in range(3):
            padded[:, element][cells[:, element]] = x[:, element].flatten()
        statistics = model._statistics(padded, cells)
        for name in ("mean", "std"):
            for element, own in enumerate(columns):
                assert torch.equal(statistics[name][element, own], expected[name][element])
        rounded_off += int((expected["std"] < 1e-4).sum())
    assert rounded_off > 30, "no deviation was a rounding error"
