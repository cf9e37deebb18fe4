"""What a forward pass costs, by the size of a table.

Shapes: N train rows, M test rows, C columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, order=True)
class Size:
    """Train rows, test rows and columns of a table as the model sees it."""

    train: int
    test: int
    columns: int

    @property
    def rows(self) -> int:
        """All rows."""
        return self.train + self.test

    def __or__(self, other: Size) -> Size:
        return Size(
            max(self.train, other.train),
            max(self.test, other.test),
            max(self.columns, other.columns),
        )


@dataclass(frozen=True)
class Cost:
    """What a forward pass costs, in multiplications."""

    per_table: Callable[[Size], float]
    per_pass: float
    """Worth of one pass in multiplications, however small it is."""
    padded: float = 1.0
    """Factor on the tables of a bucket with padding, which must be told what is there."""


# Measured on the mini host, 2 threads, 8 to 32 tables: masks, ranks and gathers add a tenth.
PADDED = 1.1
# What a block costs by running at all: its calls, and threads that small products leave idle.
_BLOCK_OVERHEAD = {"cpu": 1e7}
# Not measured: 0.3 ms on a device that multiplies 1e13 times a second.
_ACCELERATOR_OVERHEAD = 3e9


def block_overhead(device_type: str) -> float:
    """Worth of running one block once, in multiplications."""
    return _BLOCK_OVERHEAD.get(device_type, _ACCELERATOR_OVERHEAD)
