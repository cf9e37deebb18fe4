"""A dask cluster: one on this machine, or any whose workers have oretro installed.

No more cases are handed over than there are workers, so that none waits behind one that dies.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import contextmanager
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

from experiments.errors import ConfigError, EngineError, MissingExtraError, WorkerDiedError
from experiments.sweep.engines.engine import LOCAL, Lost
from experiments.sweep.engines.worker import run_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from experiments.sweep.engines.worker import CaseOutcome, Job, Setup

_CONNECT_S = 15
_NO_WORKER_S = 120
_POLL_S = 1.0


def run_on_dask(
    address: str, count: int, setup: Setup, jobs: Sequence[Job]
) -> Iterator[Lost | tuple[Job, CaseOutcome]]:
    """Run jobs on the scheduler at ``address``, or on ``count`` local workers, as they end.

    Raises:
        MissingExtraError: dask is not installed.
        ConfigError: no scheduler answers at the address.
        EngineError: no worker, a worker that runs several cases in one process, or one that cannot
            load the host.
    """
    with _client(address, count, setup.threads) as client:
        yield from _run(client, setup, jobs)


def _run(
    client: Any, setup: Setup, jobs: Sequence[Job]
) -> Iterator[Lost | tuple[Job, CaseOutcome]]:
    waiting = deque(jobs)
    running: dict[Any, Job] = {}
    ended: Queue[Any] = Queue()
    while waiting or running:
        workers = _workers(client)
        while waiting and len(running) < workers:
            job = waiting.popleft()
            key = f"{setup.token}-{len(waiting)}"
            future = client.submit(run_job, setup, job, key=key, pure=False)
            running[future] = job
            future.add_done_callback(ended.put)
        try:
            # Only for a moment, so that workers which come or go are noticed.
            future = ended.get(timeout=_POLL_S)
        except Empty:
            continue
        yield _finish(future, running.pop(future), setup.case_timeout_s)


def _finish(future: Any, job: Job, timeout_s: float | None) -> Lost | tuple[Job, CaseOutcome]:
    from distributed.scheduler import KilledWorker

    try:
        return job, future.result()
    except EngineError:
        raise
    except KilledWorker:
        limit = "" if timeout_s is None else f", or was ended after --case-timeout {timeout_s:g} s"
        return Lost(job, WorkerDiedError(f"the dask worker that ran this case died{limit}"))
    except (
        Exception,
        SystemExit,
    ) as error:  # rows that cannot be sent back: this case alone has none
        return Lost(job, WorkerDiedError(f"{type(error).__name__}: {error}"))
    finally:
        future.release()


def _workers(client: Any) -> int:
    """How many workers there are; waits for the first.

    Raises:
        EngineError: none appears, or one has several threads: torch's settings belong to a whole
            process, so two cases in one would disturb each other.
    """
    deadline = time.monotonic() + _NO_WORKER_S
    while not (threads := client.nthreads()):
        if time.monotonic() > deadline:
            raise EngineError(
                f"the dask cluster has had no worker for {_NO_WORKER_S} s; finished results are "
                "safe: start workers and run the same command again"
            )
        time.sleep(_POLL_S)
    crowded = [name for name, count in threads.items() if count != 1]
    if crowded:
        raise EngineError(
            f"dask worker {crowded[0]} runs several cases in one process; start workers with "
            "--nthreads 1 (and --nworkers N for N cases at a time)"
        )
    return len(threads)


@contextmanager
def _client(address: str, count: int, threads: int) -> Iterator[Any]:
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingExtraError("--dask needs dask; pip install 'oretro[dask]'") from None
    if address != LOCAL:
        try:
            client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError, OverflowError, TypeError) as error:
            raise ConfigError(
                f"no dask scheduler answers at '{address}' ({error}); give its address as "
                "tcp://HOST:PORT, or 'local'"
            ) from None
        with client:
            yield client
        return
    settings = {
        # A case whose worker died is not tried on the next one, which it might end as well.
        "distributed.scheduler.allowed-failures": 0,
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": threads,
        "distributed.nanny.pre-spawn-environ.MKL_NUM_THREADS": threads,
        "distributed.nanny.pre-spawn-environ.OPENBLAS_NUM_THREADS": threads,
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
