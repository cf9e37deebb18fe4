"""One clock for what is compared: in turn within a round, so that a drift slows all of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """What the work gives, and the seconds it took."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def interleaved(work: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of each, one per round, begun with another one each time; a first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    names = list(work)
    for index in range(rounds + 1):
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            seconds[name].append(timed(work[name])[1])
    return {name: np.asarray(values[1:]) for name, values in seconds.items()}


def quartiles(slow: np.ndarray, fast: np.ndarray) -> tuple[float, float, float]:
    """Quartiles over the rounds of one's seconds over the other's in the same round."""
    low, middle, high = np.quantile(slow / fast, (0.25, 0.5, 0.75))
    return float(low), float(middle), float(high)
