"""Rows of a case: a cap on the training part, and splits that come with a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hard_tables import PLAIN

from experiments.data.settings import FileSet
from experiments.errors import DataError
from experiments.sweep.cases import PlannedCase, plan_cases
from experiments.sweep.config import SweepConfig


def plan(folder: Path, **settings: object) -> list[PlannedCase]:
    path = folder / "t.csv"
    path.write_bytes(PLAIN)
    files = (FileSet(path=path, target="y"),)
    return list(plan_cases(SweepConfig(suite="s", files=files, **{"seeds": (1, 2), **settings})))


def test_training_rows_are_capped_with_the_seed_and_the_test_part_stays(tmp_path: Path) -> None:
    whole = plan(tmp_path)
    capped = plan(tmp_path, max_train_rows=5)
    again = plan(tmp_path, max_train_rows=5)
    for one, few, same in zip(whole, capped, again, strict=True):
        assert len(one.split.train) == 14
        assert len(few.split.train) == 5
        assert set(few.split.train) < set(one.split.train)
        np.testing.assert_array_equal(few.split.test, one.split.test)
        np.testing.assert_array_equal(few.split.train, same.split.train)
        assert few.split.sha256 != one.split.sha256
    assert set(capped[0].split.train) != set(capped[1].split.train)
    roomy = plan(tmp_path, max_train_rows=14)
    assert [item.split.sha256 for item in roomy] == [item.split.sha256 for item in whole]


def test_official_splits_of_a_table_without_any_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'t' comes without official splits; set splits: ours"):
        plan(tmp_path, splits="official", seeds=(0,))
