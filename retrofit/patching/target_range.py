"""Sizes of a target that a host's float32 preparation carries; one check for every command."""

from __future__ import annotations

import numpy as np

MAX_TARGET = 1e30
"""float32 ends at 3.4e38, and the tails of the bar distribution lie beyond the targets."""
MIN_TARGET_SPREAD = 1e-13
"""tabpfn divides by the standard deviation plus 1e-20, which must drown in float32's rounding.

Measured on the built-in host (not Prior Labs' model), RMSE over spread against that at spread 1:
changed by 6e-7 of itself at 1e-13, as at larger spreads up to 1e37; by 6e-5 at 1e-16; it is
useless below 1e-21; and from 1e38 on there is an overflow.
"""


def target_fault(y_N: np.ndarray, name: str) -> str:
    """Why no host can be fitted on targets of this size, in one sentence; empty if one can.

    Args:
        y_N: Finite targets, at least one.
        name: What the sentence calls them.
    """
    largest, spread = float(np.abs(y_N).max()), float(np.ptp(y_N))
    if largest > MAX_TARGET:
        return (
            f"target range: '{name}' reaches {largest:.3g}, beyond {MAX_TARGET:.0e} that float32 "
            "arithmetic on the target can carry; rescale it"
        )
    if 0 < spread < MIN_TARGET_SPREAD:
        return (
            f"target range: the values of '{name}' differ by {spread:.3g} at most, below "
            f"{MIN_TARGET_SPREAD:.0e} that tabpfn's standardisation can tell apart; rescale it"
        )
    return ""
