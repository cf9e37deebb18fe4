"""Train/test splits that depend on the data set's name and the seed alone."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np


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


def draw_subset(split: Split, dataset: str, seed: int, max_train: int) -> Split:
    """The split with ``max_train`` of its train rows, drawn; unchanged if it has no more."""
    if len(split.train) <= max_train:
        return split
    order = _order("oretro-subset", dataset, seed, len(split.train))
    return Split(train=np.sort(split.train[order[:max_train]]), test=split.test)


def _order(purpose: str, dataset: str, seed: int, n_rows: int) -> np.ndarray:
    text = f"{purpose}\0{dataset}\0{seed}".encode("utf-8", "surrogatepass")
    entropy = int.from_bytes(hashlib.sha256(text).digest(), "big")
    return np.argsort(np.random.PCG64(entropy).random_raw(n_rows), kind="stable")
