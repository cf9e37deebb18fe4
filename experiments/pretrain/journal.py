"""What a run leaves in its folder beside checkpoints: learning curve, pace and log."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from experiments.io.csv_text import csv_text
from retrofit.files.atomic import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from experiments.pretrain.checkpoint import Checkpoint

CURVE, PACE, LOG, RECORD = "curve.csv", "pace.csv", "train.log", "run.json"


@dataclass(frozen=True)
class CurveRow:
    """One validation. Losses are in nats per target, ``elapsed_s`` in training seconds."""

    step: int
    elapsed_s: float
    progress: float
    tasks: int
    rate: float
    train_loss: float
    gradient_norm: float
    val_nll: float
    val_r2_mean: float
    val_r2_median: float
    tasks_per_s: float


class Journal:
    """Curve and pace since step 0, which checkpoints carry, and a log that is only added to.

    The CSV files are written with each checkpoint: they never tell of a step that a resumed run
    takes again.
    """

    def __init__(self, folder: Path, saved: Checkpoint | None):
        self._folder = folder
        step = saved.step if saved is not None else 0
        # What happens before a resumed run's first step is told anew.
        self.pace = [row for row in saved.pace if int(row[0]) < step] if saved is not None else []
        self.curve = list(saved.curve) if saved is not None and step else []

    def add(self, row: CurveRow) -> None:
        """Append one row to the learning curve, with six digits."""
        cells = astuple(row)
        self.curve.append([f"{v:.6g}" if isinstance(v, float) else str(v) for v in cells])

    def tick(self, step: int, progress: float) -> None:
        """Append one reading of the clock, in full precision."""
        self.pace.append([str(step), repr(progress)])

    def write(self) -> None:
        """Write the CSV files, each whole or not at all."""
        names = [field.name for field in fields(CurveRow)]
        write_atomic(self._folder / CURVE, csv_text([names, *self.curve]))
        write_atomic(self._folder / PACE, csv_text([["step", "progress"], *self.pace]))

    def record(self, content: dict[str, Any]) -> None:
        """Write what the run is and what ran it."""
        write_atomic(self._folder / RECORD, json.dumps(content, indent=2) + "\n")

    def log(self, message: str) -> None:
        """Append one line with the time in UTC."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        with (self._folder / LOG).open("a", encoding="utf-8") as handle:
            handle.write(f"{now} {message}\n")
