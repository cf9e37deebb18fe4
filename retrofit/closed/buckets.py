"""Which tables to pad to one size and run together, so that little work goes into padding.

A bucket costs one forward pass of the largest sizes in it for each of its tables, and something
for being a pass at all. Tables are put in an order, and the order is cut where the total cost is
least; the best of a few orders is taken.

Shapes: N train rows, M test rows, C columns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tabpfn.architectures.tabpfn_v3 import TabPFNV3Config


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


_ORDERS: tuple[Callable[[Size], tuple[int, ...]], ...] = (
    lambda size: (size.rows, size.columns),
    lambda size: (size.rows * size.columns, size.rows),
    lambda size: (size.columns, size.rows),
)


def plan_buckets(sizes: Sequence[Size], cost: Cost) -> list[tuple[Size, list[int]]]:
    """The common size of each bucket, and which of ``sizes`` are in it, by index."""
    if not sizes:
        return []
    counts = Counter(sizes)
    plans = (_cut(sorted(counts, key=order), counts, cost) for order in _ORDERS)
    _, buckets = min(plans, key=lambda plan: plan[0])
    bucket_of = {size: number for number, bucket in enumerate(buckets) for size in bucket}
    members: list[list[int]] = [[] for _ in buckets]
    for index, size in enumerate(sizes):
        members[bucket_of[size]].append(index)
    return [(_largest(bucket), indices) for bucket, indices in zip(buckets, members, strict=True)]


def v3_cost(config: TabPFNV3Config, device_type: str = "cpu") -> Cost:
    """Multiplications of a v3 host's forward pass on one table, by the shapes of its stages."""
    width = config.embed_dim
    row_width = width * config.feat_agg_num_cls_tokens
    token = (4 + 2 * config.ff_factor) * width**2
    row = (4 + 2 * config.ff_factor) * row_width**2

    def per_table(size: Size) -> float:
        tokens = size.columns + config.feat_agg_num_cls_tokens
        cell = token + 4 * config.dist_embed_num_inducing_points * width
        embedder = config.dist_embed_num_blocks * size.rows * size.columns * cell
        aggregator = config.feat_agg_num_blocks * size.rows * tokens * (token + 2 * tokens * width)
        icl = config.nlayers * size.rows * (row + 2 * size.train * row_width)
        head = size.test * config.ff_factor * row_width * (row_width + config.num_buckets)
        return float(embedder + aggregator + icl + head)

    blocks = 2 * config.dist_embed_num_blocks + config.feat_agg_num_blocks + config.nlayers
    overhead = _BLOCK_OVERHEAD.get(device_type, _ACCELERATOR_OVERHEAD)
    return Cost(per_table, blocks * overhead, _PADDED)


# What a block costs by running at all: its calls, and threads that small products leave idle.
_BLOCK_OVERHEAD = {"cpu": 1e7}
# Not measured: 0.3 ms on a device that multiplies 1e13 times a second.
_ACCELERATOR_OVERHEAD = 3e9
# Measured on the mini host, 2 threads, 8 to 32 tables: masks, ranks and gathers add a tenth.
_PADDED = 1.1


def _cut(
    ordered: Sequence[Size], counts: Counter[Size], cost: Cost
) -> tuple[float, list[list[Size]]]:
    """Cheapest cut of an order into buckets of neighbours, with its cost."""
    best: list[float] = [0.0]
    start_of: list[int] = []
    for end in range(1, len(ordered) + 1):
        last = largest = ordered[end - 1]
        tables = 0
        options = []
        for start in range(end - 1, -1, -1):
            largest |= ordered[start]
            tables += counts[ordered[start]]
            factor = cost.padded if ordered[start] != last else 1.0
            price = cost.per_pass + factor * tables * cost.per_table(largest)
            options.append((best[start] + price, start))
        cheapest, start = min(options)
        best.append(cheapest)
        start_of.append(start)
    buckets: list[list[Size]] = []
    end = len(ordered)
    while end:
        buckets.append(list(ordered[start_of[end - 1] : end]))
        end = start_of[end - 1]
    return best[-1], buckets[::-1]


def _largest(bucket: Sequence[Size]) -> Size:
    largest = bucket[0]
    for size in bucket[1:]:
        largest |= size
    return largest
