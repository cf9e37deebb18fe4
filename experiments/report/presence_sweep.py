"""Presence sweep: how RMSE change and null radius move together with the target presence.

tau goes to 0 as the target presence goes to 1, and the RMSE change with it, while a NULL-like
carrier must become ever smaller to count as absent: a small change alone proves nothing. Imports
neither torch nor tabpfn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.sweep import variant_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.report.summary import Summary


_SHARED = ("cases", "mean_pct", "ci_low_pct", "ci_high_pct", "largest_pct")
"""What a point has of its variant's summary."""


@dataclass(frozen=True)
class PresencePoint:
    """One variant at one target presence; changes in percent of stock's RMSE."""

    variant: str
    target_presence: float
    cases: int
    mean_pct: float
    ci_low_pct: float
    ci_high_pct: float
    largest_pct: float
    """Largest absolute change of one case."""
    null_radius_median: float
    """Median over streams of the carrier norm at which presence is one half, relative to the
    stream's median norm."""
    null_radius_max: float


def presence_points(summary: Summary) -> tuple[PresencePoint, ...]:
    """Points of a folder whose variants name their target presence, by variant and presence."""
    points = []
    for item in summary.variants:
        name = variant_name.parse(item.variant)
        if name.target_presence is None:
            continue
        radius = summary.radius(item.variant)
        radii: dict[str, Any] = {
            "null_radius_median": radius.median,
            "null_radius_max": radius.max,
        }
        shared: dict[str, Any] = {field: getattr(item, field) for field in _SHARED}
        points.append(PresencePoint(name.base, name.target_presence, **shared, **radii))
    return tuple(points)


def by_variant(points: Sequence[PresencePoint]) -> dict[str, list[PresencePoint]]:
    """Points per variant, target presence ascending."""
    grouped: dict[str, list[PresencePoint]] = {}
    for point in sorted(points, key=lambda point: point.target_presence):
        grouped.setdefault(point.variant, []).append(point)
    return grouped
