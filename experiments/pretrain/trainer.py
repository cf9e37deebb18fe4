"""The training loop: one function, run by every process of the group."""

from __future__ import annotations

import math
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.errors import TrainingError
from experiments.pretrain.checkpoint import FILE_NAME, Checkpoint, load_checkpoint
from experiments.pretrain.clock import Clock
from experiments.pretrain.export import notice
from experiments.pretrain.journal import CurveRow, Journal
from experiments.pretrain.model import batch_logits, build_loss, build_model, validation_figures
from experiments.pretrain.optimiser import Optimiser
from experiments.pretrain.processes import Link, run_in_parallel
from experiments.pretrain.stream import training_batch, validation_batches
from experiments.sweep.folder.lock import folder_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from experiments.pretrain.config import PretrainConfig

_MOST_SKIPPED = 20
_LOSS_MEMORY = 0.98


@dataclass(frozen=True)
class Status:
    """Where a run stands: what a progress display needs."""

    step: int
    progress: float
    elapsed_s: float
    left_s: float
    tasks: int
    tasks_per_s: float
    train_loss: float
    figures: dict[str, float]


def ignore_status(_: Status) -> None:
    """Show nothing."""


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list instead of dying in the middle of a step."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    watched = (signal.SIGINT, signal.SIGTERM)
    before = {s: signal.signal(s, lambda number, _: received.append(number)) for s in watched}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Run:
    """State of one process of a run; process 0 also keeps the journal and the checkpoints."""

    def __init__(self, config: PretrainConfig, folder: Path, link: Link, saved: Checkpoint | None):
        self.config = config
        self.link = link
        self.path = folder / FILE_NAME
        self.model = build_model(config)
        self.loss = build_loss(config)
        self.optimiser = Optimiser(self.model, config.optimiser)
        self.clock = Clock(config.budget, config.tick_steps)
        self.step = self.tasks = self.skipped = 0
        self.before_s = self.train_loss = self.norm = 0.0
        self.figures: dict[str, float] = {}
        if saved is not None:
            self._restore(saved)
        self.first_step, self.first_tasks = self.step, self.tasks
        self.started = time.monotonic()
        self.validation = validation_batches(
            config.validation, config.prior, rank=link.rank, processes=link.processes
        )

    def _restore(self, saved: Checkpoint) -> None:
        self.model.load_state_dict(saved.model)
        self.optimiser.load_state_dict(saved.optimiser)
        self.clock.restore(saved.progress)
        self.step, self.tasks, self.skipped = saved.step, saved.tasks, saved.skipped
        self.before_s, self.figures = saved.elapsed_s, dict(saved.figures)
        self.train_loss = saved.figures.get("train_loss", 0.0)

    @property
    def elapsed_s(self) -> float:
        """Training seconds, without the time between a kill and its resumption."""
        return self.before_s + time.monotonic() - self.started

    def save(self, journal: Journal, progress: float, *, finished: bool = False) -> None:
        """Write the checkpoint, then what the journal tells of it."""
        Checkpoint(
            config=self.config.model_dump_json(),
            step=self.step,
            progress=progress,
            elapsed_s=self.elapsed_s,
            tasks=self.tasks,
            skipped=self.skipped,
            finished=finished,
            model=self.model.state_dict(),
            optimiser=self.optimiser.state_dict(),
            figures={**self.figures, "train_loss": self.train_loss},
            curve=journal.curve,
            pace=journal.pace,
        ).save(self.path)
        journal.write()

    def validate(self) -> None:
        """Refresh the validation figures of the averaged weights; all processes take part."""
        figures = validation_figures(self.optimiser.average.module, self.loss, self.validation)
        nll, r2 = self.link.gather(figures).unbind(dim=1)
        self.figures = {
            "val_nll": float(nll.mean()),
            "val_r2_mean": float(r2.clamp_min(-1.0).mean()),
            "val_r2_median": float(r2.median()),
        }

    def train_step(self, progress: float) -> None:
        """Draw a batch, average the gradient over the processes and update the weights."""
        config = self.config
        batch = training_batch(
            config.data,
            config.prior,
            seed=config.seed,
            step=self.step,
            rank=self.link.rank,
            progress=progress,
        )
        logits_MBL, y_MB = batch_logits(self.model, batch)
        loss = self.loss(logits_MBL, y_MB).mean()
        loss.backward()
        self.link.average(self.optimiser.gradient)
        norm = self.optimiser.step(self.step, progress)
        self.step += 1
        self.tasks += batch.y_RB.shape[1] * self.link.processes
        value = float(loss.detach())
        if not math.isfinite(norm):
            self.skipped += 1
            if self.skipped > _MOST_SKIPPED:
                raise TrainingError(
                    f"step {self.step}: the gradient was not finite {self.skipped} times; "
                    "lower optimiser.muon_lr and optimiser.adamw_lr."
                )
            return
        self.norm = norm
        memory = min(_LOSS_MEMORY, self.step / (self.step + 1.0))
        self.train_loss = memory * self.train_loss + (1.0 - memory) * value

    def status(self, progress: float) -> Status:
        elapsed = self.elapsed_s
        spent = max(elapsed - self.before_s, 1e-9)
        return Status(
            step=self.step,
            progress=progress,
            elapsed_s=elapsed,
            left_s=self.clock.seconds_left(progress, elapsed),
            tasks=self.tasks,
            tasks_per_s=(self.tasks - self.first_tasks) / spent,
            train_loss=self.train_loss,
            figures=self.figures,
        )


def _loop(run: _Run, journal: Journal | None, stops: list[int], show: Any) -> bool:
    """Train until the budget is spent (True) or a stop was asked for (False)."""
    config = run.config
    last_save = last_validation = time.monotonic()
    while True:
        progress = run.clock.progress(run.step, run.elapsed_s)
        now = time.monotonic()
        over = progress >= 1.0
        validate = now - last_validation >= config.validation_seconds or over or run.step == 0
        save = now - last_save >= config.checkpoint_seconds or over or bool(stops)
        progress, validate, save, stop = run.link.agree((progress, validate, save, bool(stops)))
        over = progress >= 1.0
        if journal is not None and (run.clock.is_tick(run.step) or over):
            journal.tick(run.step, progress)
        if validate:
            run.validate()
            last_validation = time.monotonic()
            if journal is not None:
                _report(run, journal, progress)
        if save and journal is not None:
            run.save(journal, progress, finished=over)
            last_save = time.monotonic()
        show(run.status(progress))
        if over or stop:
            return over
        run.train_step(progress)


def _report(run: _Run, journal: Journal, progress: float) -> None:
    status = run.status(progress)
    row = CurveRow(
        step=run.step,
        elapsed_s=round(status.elapsed_s, 1),
        progress=progress,
        tasks=run.tasks,
        rate=run.optimiser.rate(run.step, progress),
        train_loss=run.train_loss,
        gradient_norm=run.norm,
        tasks_per_s=status.tasks_per_s,
        **run.figures,
    )
    journal.add(row)
    journal.log(
        f"step {row.step} at {100 * progress:.1f} %: train loss {row.train_loss:.4f}, "
        f"validation NLL {row.val_nll:.4f}, R2 mean {row.val_r2_mean:.4f} "
        f"median {row.val_r2_median:.4f}; {row.tasks} tasks, {row.tasks_per_s:.1f}/s, "
        f"gradient norm {row.gradient_norm:.2f}, {run.skipped} skipped"
    )


def _follow_run(config: PretrainConfig, folder: Path, link: Link) -> None:
    _loop(_Run(config, folder, link, _saved(config, folder)), None, [], ignore_status)


def _saved(config: PretrainConfig, folder: Path) -> Checkpoint | None:
    """The run to go on with. Raises ``TrainingError`` when it is another configuration's."""
    path = folder / FILE_NAME
    if not path.exists():
        return None
    saved = load_checkpoint(path)
    saved.check_config(config, path)
    return saved


def _provenance(config: PretrainConfig) -> dict[str, Any]:
    from experiments.machine.provenance import here

    return {"notice": notice(config), "config": config.model_dump(mode="json"), **here()}


def train(
    config: PretrainConfig, folder: Path, *, show: Callable[[Status], None] = ignore_status
) -> bool:
    """Start or resume the run in ``folder``; return whether its budget is spent.

    SIGINT and SIGTERM end it at the next step boundary, with a checkpoint (the result is then
    False). A killed run loses at most ``checkpoint_seconds`` of training. Raises
    ``TrainingError`` when the folder holds another run, or when training cannot go on, and
    ``FolderInUseError`` when another process is training in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder):
        saved = _saved(config, folder)
        return (saved is not None and saved.finished) or _train(config, folder, saved, show)


def _train(
    config: PretrainConfig, folder: Path, saved: Checkpoint | None, show: Callable[[Status], None]
) -> bool:
    outcome = [False]

    def lead(link: Link) -> None:
        with _stop_requests() as stops:
            run = _Run(config, folder, link, saved)
            journal = Journal(folder, saved)
            journal.record(_provenance(config))
            journal.log(
                f"{'resumed' if run.step else 'started'} {config.name} at step {run.step} with "
                f"{config.processes} processes of {config.threads} threads"
            )
            outcome[0] = _loop(run, journal, stops, show)
            journal.log("finished" if outcome[0] else f"stopped at step {run.step}")

    run_in_parallel(_follow_run, lead, config, folder)
    return outcome[0]
