"""Where the cases of a sweep run: in this process, in worker processes, or on a dask cluster.

The numbers are the same whichever it is: splits are drawn and results are written here, threads
are pinned to the same number everywhere, and a worker whose numbers would differ is refused.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.errors import ConfigError
from experiments.machine.threads import pinned_threads
from experiments.sweep.engines.worker import Setup, require_equal, surroundings
from experiments.sweep.run_case import failed_case, run_case

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from experiments.errors import CaseError
    from experiments.sweep.engines.worker import CaseOutcome, Job
    from experiments.sweep.run_case import Result
    from experiments.sweep.variants import Subjects

LOCAL = "local"


@dataclass(frozen=True)
class Engine:
    """How to run the cases. None of it enters a result's key, for it decides no number."""

    jobs: int = 1
    """Cases at a time."""
    dask: str | None = None
    """``local`` for a cluster on this machine, or the address of a scheduler."""
    case_timeout_s: float | None = None
    """Seconds after which a case's worker is ended; needs worker processes, even for one job."""

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ConfigError(f"option: jobs: {self.jobs} is less than 1")
        if self.case_timeout_s is not None and not self.case_timeout_s > 0:
            raise ConfigError(f"option: case-timeout: {self.case_timeout_s} is not above 0")

    @property
    def kind(self) -> str:
        """``serial``, ``processes`` or ``dask``."""
        if self.dask is not None:
            return "dask"
        return "serial" if self.jobs == 1 and self.case_timeout_s is None else "processes"


@dataclass(frozen=True, eq=False)
class Lost:
    """A case whose worker gave no rows, and why."""

    job: Job
    error: CaseError


def run_jobs(
    engine: Engine, setup: Setup, subjects: Subjects, jobs: Sequence[Job]
) -> Iterator[tuple[Job, Result]]:
    """Yield every row of every job as it is finished; the order depends on the engine.

    A worker that dies, or is ended by the watchdog, costs the rows of its own case alone: they come
    back as failed.

    Raises:
        EngineError: no worker can be had, or one of them would give other numbers.
        MissingExtraError: dask is asked for and not installed.
    """
    if engine.kind == "serial":
        yield from _serial(setup, subjects, jobs)
        return
    expected = surroundings(setup.config, subjects)
    for finished in _elsewhere(engine, setup, jobs):
        if isinstance(finished, Lost):
            job = finished.job
            results: Iterable[Result] = failed_case(
                setup.config, job.planned, subjects, job.wanted, finished.error
            )
        else:
            job, outcome = finished
            require_equal(expected, outcome)
            results = outcome.results
        for result in results:
            yield job, result


def crowding(engine: Engine, threads: int | None) -> str:
    """A remark if the workers of this machine want more threads than it has cores, else empty."""
    import torch

    cores = os.cpu_count() or 1
    threads = threads or torch.get_num_threads()
    wanted = engine.jobs * threads
    if engine.kind == "serial" or engine.dask not in (None, LOCAL) or wanted <= cores:
        return ""
    return (
        f"{engine.jobs} jobs on {threads} threads each are more than the {cores} cores here; "
        "--threads 1 is usually faster (the last digits of a score depend on it)"
    )


def _serial(setup: Setup, subjects: Subjects, jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
    for job in jobs:
        with pinned_threads(setup.threads):
            for result in run_case(setup.config, job.planned, subjects, job.wanted):
                yield job, result


def _elsewhere(
    engine: Engine, setup: Setup, jobs: Sequence[Job]
) -> Iterator[Lost | tuple[Job, CaseOutcome]]:
    if engine.dask is None:
        from experiments.sweep.engines.processes import run_in_processes

        return run_in_processes(engine.jobs, setup, jobs)
    from experiments.sweep.engines.dask_cluster import run_on_dask

    return run_on_dask(engine.dask, engine.jobs, setup, jobs)
