"""Live progress of a run on a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from experiments.pretrain.trainer import Status

_STEPS = 10_000


def clock_text(seconds: float) -> str:
    """Return ``h:mm:ss``, or ``-:--:--`` when it is not known."""
    if seconds == float("inf"):
        return "-:--:--"
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def status_text(status: Status) -> str:
    """Return loss, validation figures, speed and time left in one line."""
    figures = status.figures
    validation = (
        f"val NLL {figures['val_nll']:.3f} R2 {figures['val_r2_median']:.3f}"
        if "val_nll" in figures
        else "val -"
    )
    return (
        f"step {status.step} loss {status.train_loss:.3f} {validation} "
        f"{status.tasks_per_s:.1f} tasks/s left {clock_text(status.left_s)}"
    )


@contextmanager
def live_progress() -> Iterator[Callable[[Status], None]]:
    """Show a bar on stderr, redrawn four times a second; without a terminal, show nothing."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    bar = Progress(
        TextColumn("pretrain"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.fields[line]}"),
        console=console,
        refresh_per_second=4,
    )
    with bar:
        task = bar.add_task("pretrain", total=_STEPS, line="starting")
        yield lambda status: bar.update(
            task, completed=_STEPS * status.progress, line=status_text(status)
        )
