"""Which tables to pad to one size and run together, so that little work goes into padding.

A bucket costs one forward pass of the largest sizes in it for each of its tables, and something
for being a pass at all. Tables are put in an order, and the order is cut where the total cost is
least; the best of a few orders is taken.

Shapes: N train rows, M test rows, C columns.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from retrofit.hosts.cost import Cost, Size


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
