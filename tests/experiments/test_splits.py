"""Splits: a function of the data set's name and the seed, and of nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.data.splits import draw_split, draw_subset


def test_split_is_the_published_one() -> None:
    # Written down once: a change of numpy, platform or process must not move it.
    split = draw_split("diabetes", 1729, 442, 0.3)
    assert split.test[:8].tolist() == [4, 5, 11, 12, 15, 16, 23, 28]
    assert split.sha256.startswith("03242ceb33fdc5f0")


@pytest.mark.parametrize(("rows", "n_test"), [(10, 3), (30, 9), (1030, 309), (442, 133), (1, 1)])
def test_parts_are_disjoint_complete_and_ascending(rows: int, n_test: int) -> None:
    split = draw_split("any", 7, rows, 0.3)
    assert len(split.test) == n_test
    assert sorted([*split.train, *split.test]) == list(range(rows))
    assert (np.diff(split.train) > 0).all()
    assert (np.diff(split.test) > 0).all()


@pytest.mark.parametrize(
    ("rows", "fraction", "n_test"),
    [(30, 0.1, 3), (100, 0.07, 7), (25, 0.28, 7), (100, 0.55, 55), (50, 0.14, 7), (300, 0.07, 21)],
)
def test_rounding_of_the_fraction_does_not_add_a_row(
    rows: int, fraction: float, n_test: int
) -> None:
    # In floating point 0.07 * 100 is 7.000000000000001, whose ceiling is 8.
    assert len(draw_split("any", 0, rows, fraction).test) == n_test
    assert len(draw_split("any", 0, rows, fraction + 1e-9).test) == n_test + 1


def test_subset_is_the_published_one() -> None:
    # As the split: written down once.
    split = draw_split("diabetes", 1729, 442, 0.3)
    subset = draw_subset(split, "diabetes", 1729, 50)
    assert subset.train[:8].tolist() == [14, 17, 20, 25, 29, 64, 74, 87]
    assert subset.sha256.startswith("c17a62f69bd1ab7e")
    np.testing.assert_array_equal(subset.test, split.test)
    others = [draw_subset(split, "diabetes", 1, 50), draw_subset(split, "other", 1729, 50)]
    assert subset.sha256 not in {other.sha256 for other in others}


def test_split_changes_with_seed_and_name_only() -> None:
    first = draw_split("a", 1, 50, 0.3)
    assert draw_split("a", 1, 50, 0.3).sha256 == first.sha256
    others = [draw_split("a", 2, 50, 0.3), draw_split("b", 1, 50, 0.3), draw_split("a", 1, 50, 0.2)]
    assert first.sha256 not in {split.sha256 for split in others}


def test_name_and_seed_cannot_run_into_each_other() -> None:
    assert draw_split("a1", 2, 50, 0.3).sha256 != draw_split("a", 12, 50, 0.3).sha256
