"""Worker processes on this machine, by joblib's loky: started anew, never forked after torch.

Each worker is a pool of its own, so that a death breaks that pool alone and its case is known.
"""

from __future__ import annotations

import os
import re
from collections import deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.errors import CaseTimeoutError, EngineError, WorkerDiedError
from experiments.sweep.engines.engine import Lost
from experiments.sweep.engines.worker import follow_parent, run_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from experiments.errors import CaseError
    from experiments.sweep.engines.worker import CaseOutcome, Job, Setup

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_WATCHDOG_EXIT = "EXIT(1)"
_EXIT_CODES = re.compile(r"exit codes? of the workers? (?:are|is) \{(.*?)\}")


@dataclass(eq=False)
class _Slot:
    """One worker process and the case that it has."""

    pool: Any
    job: Job
    future: Future[CaseOutcome]


def run_in_processes(
    count: int, setup: Setup, jobs: Sequence[Job]
) -> Iterator[Lost | tuple[Job, CaseOutcome]]:
    """Run jobs in ``count`` processes and yield each as it ends.

    Raises:
        EngineError: a worker cannot load the host.
    """
    waiting = deque(jobs)
    slots: list[_Slot] = []
    try:
        while waiting and len(slots) < count:
            slots.append(_start(setup, waiting.popleft()))
        while slots:
            wait([slot.future for slot in slots], return_when=FIRST_COMPLETED)
            for slot in [slot for slot in slots if slot.future.done()]:
                # Listed until its successor is, so that an error ends this worker as well.
                finished = _finish(slot, setup.case_timeout_s)
                if waiting:
                    job = waiting.popleft()
                    pool = None if isinstance(finished, Lost) else slot.pool
                    slots.append(_start(setup, job, pool))
                else:
                    slot.pool.shutdown(wait=False)
                slots.remove(slot)
                yield finished
    finally:
        for slot in slots:
            slot.pool.shutdown(wait=True, kill_workers=True)


def _start(setup: Setup, job: Job, pool: Any = None) -> _Slot:
    from joblib.externals.loky import ProcessPoolExecutor

    if pool is None:
        environment = {name: str(setup.threads) for name in _THREAD_VARIABLES}
        pool = ProcessPoolExecutor(
            max_workers=1,
            initializer=follow_parent,
            initargs=(os.getpid(),),
            env=environment,
        )
    return _Slot(pool, job, pool.submit(run_job, setup, job))


def _finish(slot: _Slot, timeout_s: float | None) -> Lost | tuple[Job, CaseOutcome]:
    try:
        return slot.job, slot.future.result()
    except EngineError:
        raise
    except BrokenExecutor as error:
        lost = Lost(slot.job, _cause_of_death(error, timeout_s))
    except (
        Exception,
        SystemExit,
    ) as error:  # rows that cannot be sent back: this case alone has none
        lost = Lost(slot.job, WorkerDiedError(f"{type(error).__name__}: {error}"))
    slot.pool.shutdown(wait=False, kill_workers=True)
    return lost


def _cause_of_death(error: Exception, timeout_s: float | None) -> CaseError:
    found = _EXIT_CODES.search(str(error))
    codes = found.group(1) if found else "an unknown status"
    if timeout_s is not None and codes == _WATCHDOG_EXIT:
        return CaseTimeoutError(
            f"no result within --case-timeout {timeout_s:g} s, its worker was ended"
        )
    return WorkerDiedError(
        f"the worker process ended with {codes}; a process that takes too much memory ends so"
    )
