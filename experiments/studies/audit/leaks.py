"""What counts as a leak in the stages' table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def leaks(stages: pd.DataFrame, tolerance: float) -> pd.Series[bool]:
    """True where an old state moved, or a NULL token has a state.

    A scaffold that no present token reads, such as a NULL column's inducing states, may have one.
    """
    awake = ~stages["scaffold"] & (stages["null"] > tolerance)
    return (stages["relative_shift"] > tolerance) | awake


def closed_leak(stages: pd.DataFrame, tolerance: float) -> str:
    """Where a closed host lets a NULL token act; empty if nowhere, or if it was not audited."""
    found = stages[(stages["variant"] == "closed") & leaks(stages, tolerance)]
    if found.empty:
        return ""
    first = found.sort_values("order").iloc[0]
    return f"{first['insertion']}, {first['entry']}, at {first['stage']}"
