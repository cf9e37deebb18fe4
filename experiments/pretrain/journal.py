"""What a run leaves in its folder beside checkpoints: learning curve, pace and log."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import astuple, dataclass, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from retrofit.files.atomic import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

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


def _trimmed(path: Path, step: int) -> str:
    """Return the file's header and its rows up to ``step`` (the first column)."""
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [lines[0], *(line for line in lines[1:] if int(line.split(",", 1)[0]) <= step)]
    return "\n".join(kept) + "\n"


class Journal:
    """Appends to the run's CSV files and log; on resume, rows after the checkpoint are dropped."""

    def __init__(self, folder: Path, step: int):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        headers = {
            CURVE: ",".join(field.name for field in fields(CurveRow)),
            PACE: "step,progress",
        }
        for name, header in headers.items():
            path = folder / name
            if step and path.exists():
                last = step - 1 if name == PACE else step
                write_atomic(path, _trimmed(path, last))
            else:
                write_atomic(path, header + "\n")

    def _append(self, name: str, text: str) -> None:
        with (self._folder / name).open("a", encoding="utf-8") as handle:
            handle.write(text + "\n")

    def curve(self, row: CurveRow) -> None:
        """Append one row to the learning curve."""
        line = io.StringIO()
        cells = [f"{v:.6g}" if isinstance(v, float) else v for v in astuple(row)]
        csv.writer(line, lineterminator="").writerow(cells)
        self._append(CURVE, line.getvalue())

    def pace(self, step: int, progress: float) -> None:
        """Append one reading of the clock, in full precision."""
        self._append(PACE, f"{step},{progress!r}")

    def record(self, content: dict[str, Any]) -> None:
        """Write what the run is and what ran it."""
        write_atomic(self._folder / RECORD, json.dumps(content, indent=2) + "\n")

    def log(self, message: str) -> None:
        """Append one line with the time in UTC."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._append(LOG, f"{now} {message}")
