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
_LINE_SECONDS = 60.0


def clock_text(seconds: float) -> str:
    """``h:mm:ss``, or ``-:--:--`` when it is not known."""
    if seconds == float("inf"):
        return "-:--:--"
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def status_text(status: Status) -> str:
    """Loss, validation figures, speed and time left in one line."""
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


def _sparse_lines(say: Callable[[str], None]) -> Callable[[Status], None]:
    last = -float("inf")

    def show(status: Status) -> None:
        nonlocal last
        if status.elapsed_s - last >= _LINE_SECONDS or status.progress >= 1.0:
            last = status.elapsed_s
            say(f"{100 * status.progress:.1f} % {status_text(status)}")

    return show


@contextmanager
def live_progress(say: Callable[[str], None]) -> Iterator[Callable[[Status], None]]:
    """Show a bar on stderr while the block runs, or a line a minute where there is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _sparse_lines(say)
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
