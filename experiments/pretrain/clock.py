"""How far a run is: by steps, by training seconds, or by the recorded pace of an earlier run.

Progress in [0, 1] drives the learning rate and the curriculum. It is read once per *tick* (a
fixed number of steps) and written to ``pace.csv``, so that a wall-clock run, whose pace depends on
the machine's load, can be replayed step by step with the same weights.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from experiments.errors import ConfigError
from experiments.pretrain.config import ReplayBudget, StepBudget, WallClockBudget

if TYPE_CHECKING:
    from pathlib import Path

_DIGITS = 7


def read_pace(path: Path) -> dict[int, float]:
    """Progress by step. Raises ``ConfigError`` when the file is no complete pace."""
    try:
        with path.open(encoding="utf-8", newline="") as handle:
            pace = {int(row["step"]): float(row["progress"]) for row in csv.DictReader(handle)}
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"budget.pace: {path} is no pace file ({error!r}).") from error
    if not pace or min(pace) != 0 or max(pace.values()) < 1.0:
        raise ConfigError(f"budget.pace: {path} is the pace of an unfinished run.")
    return pace


class Clock:
    """Progress from a step number and the elapsed training seconds."""

    def __init__(self, budget: StepBudget | WallClockBudget | ReplayBudget, tick_steps: int):
        self._budget = budget
        self._tick_steps = tick_steps
        self._pace = read_pace(budget.pace) if isinstance(budget, ReplayBudget) else {}
        self._held = 0.0

    def restore(self, progress: float) -> None:
        """Go on from the progress that a checkpoint holds."""
        self._held = progress

    def is_tick(self, step: int) -> bool:
        """Whether progress is read anew before this step."""
        if isinstance(self._budget, ReplayBudget):
            return step in self._pace
        return step % self._tick_steps == 0

    def progress(self, step: int, elapsed_s: float) -> float:
        """The progress that holds during ``step``; 1.0 means that the run is over."""
        if isinstance(self._budget, StepBudget):
            return min(1.0, step / self._budget.steps)
        if self.is_tick(step):
            if isinstance(self._budget, ReplayBudget):
                self._held = self._pace[step]
            else:
                self._held = min(1.0, round(elapsed_s / self._budget.seconds, _DIGITS))
        return self._held

    def seconds_left(self, progress: float, elapsed_s: float) -> float:
        """The estimated training seconds until the end."""
        if isinstance(self._budget, WallClockBudget):
            return max(0.0, self._budget.seconds - elapsed_s)
        return elapsed_s * (1.0 - progress) / progress if progress > 0 else float("inf")
