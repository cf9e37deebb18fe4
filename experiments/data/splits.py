"""Train/test splits that depend on the data set's name, the seed and the rows' labels alone."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from experiments.errors import DataError


@dataclass(frozen=True)
class SplitColumns:
    """Columns that say which rows belong together, or which come first."""

    group: str | None = None
    """Rows with one value of it stay on one side."""
    time: str | None = None
    """Train on the earlier rows, test on the later."""
    keep: bool = False
    """Whether such a column is a feature as well."""

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are given."""
        return tuple(name for name in (self.group, self.time) if name is not None)


BY_ROWS = SplitColumns()
"""No column says anything: each row is split by itself."""


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of one split, each ascending."""

    train: np.ndarray
    test: np.ndarray

    @cached_property
    def sha256(self) -> str:
        """Hash of both index lists, so that a resumed sweep knows it is the same split."""
        digest = hashlib.sha256(b"oretro-split-1")
        for rows in (self.train, self.test):
            digest.update(len(rows).to_bytes(8, "little") + rows.astype("<i8").tobytes())
        return digest.hexdigest()


def draw_split(dataset: str, seed: int, n_rows: int, test_fraction: float) -> Split:
    """Draw ``ceil(test_fraction * n_rows)`` test rows; the others train.

    Rows are ordered by a PCG64 stream seeded with SHA-256 of (dataset, seed): neither the order of
    the cases, nor the number of processes, nor Python's salted ``hash`` can change a split. Raw
    bits are the part of numpy's random API that is promised to stay the same between versions.
    """
    order = _order("oretro-split", dataset, seed, n_rows)
    # As a fraction: in floating point 0.1 * 30 rounds up to one row too many.
    n_test = math.ceil(Fraction(str(test_fraction)) * n_rows)
    return Split(train=np.sort(order[n_test:]), test=np.sort(order[:n_test]))


def draw_fold(dataset: str, number: int, n_rows: int, folds: int) -> Split:
    """Fold ``number % folds`` of the order of rows that seed ``number // folds`` draws.

    Raises:
        DataError: there are fewer rows than folds.
    """
    from sklearn.model_selection import KFold

    seed, fold = divmod(number, folds)
    order = _order("oretro-folds", dataset, seed, n_rows)
    return _nth(KFold(folds), fold, order, dataset)


def draw_groups(
    dataset: str, number: int, groups_R: np.ndarray, test_fraction: float, folds: int | None
) -> Split:
    """A split of whole groups: a share of them drawn to test, or fold ``number % folds``.

    Raises:
        DataError: there are too few groups.
    """
    from sklearn.model_selection import GroupKFold, GroupShuffleSplit

    rows = np.arange(len(groups_R))
    if folds is None:
        state = _entropy("oretro-groups", dataset, number) % 2**32
        drawn = GroupShuffleSplit(1, test_size=test_fraction, random_state=state)
        return _nth(drawn, 0, rows, dataset, groups_R)
    seed, fold = divmod(number, folds)
    state = _entropy("oretro-groups", dataset, seed) % 2**32
    parts = GroupKFold(folds, shuffle=True, random_state=state)
    return _nth(parts, fold, rows, dataset, groups_R)


def cut_times(
    dataset: str, number: int, times_R: np.ndarray, test_fraction: float, folds: int | None
) -> Split:
    """Test on the latest rows, or on the next stretch of moments in each fold.

    Rows of one moment stay on one side, so that nothing is learnt from the moment of a test row.

    Raises:
        DataError: there are too few moments.
    """
    from sklearn.model_selection import TimeSeriesSplit

    if folds is None:
        n_test = math.ceil(Fraction(str(test_fraction)) * len(times_R))
        later = times_R >= np.sort(times_R)[len(times_R) - n_test]
        return Split(np.flatnonzero(~later), np.flatnonzero(later))
    moments = np.unique(times_R)
    split = _nth(TimeSeriesSplit(folds), number % folds, np.arange(len(moments)), dataset)
    train, test = (np.isin(times_R, moments[part]) for part in (split.train, split.test))
    return Split(np.flatnonzero(train), np.flatnonzero(test))


def _nth(
    splitter: Any, fold: int, order: np.ndarray, dataset: str, groups: np.ndarray | None = None
) -> Split:
    try:
        train, test = list(splitter.split(order, groups=groups))[fold]
    except ValueError as error:
        raise DataError(f"'{dataset}' cannot be split so: {error}") from None
    return Split(np.sort(order[train]), np.sort(order[test]))


def draw_subset(split: Split, dataset: str, seed: int, max_train: int) -> Split:
    """The split with ``max_train`` of its train rows, drawn; unchanged if it has no more."""
    if len(split.train) <= max_train:
        return split
    order = _order("oretro-subset", dataset, seed, len(split.train))
    return Split(train=np.sort(split.train[order[:max_train]]), test=split.test)


def _order(purpose: str, dataset: str, seed: int, n_rows: int) -> np.ndarray:
    entropy = _entropy(purpose, dataset, seed)
    return np.argsort(np.random.PCG64(entropy).random_raw(n_rows), kind="stable")


def _entropy(purpose: str, dataset: str, seed: int) -> int:
    text = f"{purpose}\0{dataset}\0{seed}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest(), "big")
