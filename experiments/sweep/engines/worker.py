"""What runs one case of a sweep, in this process or in a worker process anywhere.

A worker loads and patches the host once and keeps it for the cases that follow.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from experiments.errors import EngineError
from experiments.machine import provenance
from experiments.machine.code import code_sha256
from experiments.machine.device import device_model
from experiments.machine.kernels import kernel_choice
from experiments.machine.threads import pinned_threads
from experiments.sweep.run_case import Result, run_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from experiments.sweep.cases import PlannedCase
    from experiments.sweep.config import SweepConfig
    from experiments.sweep.variants import Subjects


@dataclass(frozen=True, eq=False)
class Job:
    """One case and the names of the rows that are still to be computed for it."""

    planned: PlannedCase
    wanted: tuple[str, ...]

    @property
    def label(self) -> str:
        """The case in words."""
        return f"{self.planned.case.dataset}, seed {self.planned.case.seed}"


@dataclass(frozen=True, eq=False)
class Setup:
    """What every worker of one sweep is given."""

    token: str
    """Names the sweep: a worker that outlives it loads anew for the next."""
    config: SweepConfig
    threads: int
    load: Callable[[SweepConfig], Subjects]
    case_timeout_s: float | None = None


@dataclass(frozen=True)
class Surroundings:
    """Everything around a case that decides its numbers; equal in all processes of a sweep."""

    host_sha256: str
    patches_sha256: str
    """Hash of every variant's patch report: tau per stream among others."""
    cpu: tuple[tuple[str, str], ...]
    """What picks the kernels of a CPU."""
    device: str
    """The device's model; CUDA devices by the name of the GPU."""
    versions: tuple[tuple[str, str], ...]
    code_sha256: str


@dataclass(frozen=True, eq=False)
class CaseOutcome:
    """The rows of one case, and where they were made."""

    surroundings: Surroundings
    machine: str
    results: tuple[Result, ...]


_STDERR = 2
_PARENT_POLL_S = 0.5
_loaded: dict[str, Subjects] = {}
_loading = threading.Lock()


def run_job(setup: Setup, job: Job) -> CaseOutcome:
    """Run one case in a worker process.

    Raises:
        EngineError: the host cannot be loaded here.
    """
    subjects = _subjects(setup)
    with pinned_threads(setup.threads), _watchdog(setup.case_timeout_s):
        results = tuple(run_case(setup.config, job.planned, subjects, job.wanted))
    return CaseOutcome(surroundings(setup.config, subjects), socket.gethostname(), results)


def surroundings(config: SweepConfig, subjects: Subjects) -> Surroundings:
    """Describe this process, its device and what it has loaded."""
    reports = {patched.name: dict(patched.report) for patched in subjects.patched}
    # What was measured on the way, such as an error's last digit, is not what was built.
    built = {name: report.get("config") for name, report in reports.items()}
    text = json.dumps(built, sort_keys=True, default=repr)
    return Surroundings(
        host_sha256=subjects.host.sha256,
        patches_sha256=hashlib.sha256(text.encode()).hexdigest(),
        cpu=kernel_choice(),
        device=device_model(config.device),
        versions=tuple(provenance.versions(provenance.KEY_PACKAGES).items()),
        code_sha256=code_sha256(),
    )


def require_equal(expected: Surroundings, outcome: CaseOutcome) -> None:
    """Make sure that a worker's rows may stand beside those of the others.

    Raises:
        EngineError: it has another processor, other versions, code, host or tau.
    """
    mine, theirs = asdict(expected), asdict(outcome.surroundings)
    changes = [f"{name}: {theirs[name]} there, {mine[name]} here" for name in mine]
    changes = [line for line, name in zip(changes, mine, strict=True) if mine[name] != theirs[name]]
    if changes:
        raise EngineError(
            f"a worker on {outcome.machine} would give other numbers ({'; '.join(changes)}); "
            "use equal machines and installations for one sweep"
        )


def follow_parent(parent: int) -> None:
    """Leave Ctrl-C to the parent process, which ends its workers, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _subjects(setup: Setup) -> Subjects:
    with _loading:
        if setup.token not in _loaded:
            _loaded.clear()
            with pinned_threads(setup.threads):
                try:
                    _loaded[setup.token] = setup.load(setup.config)
                except (Exception, SystemExit) as error:
                    raise EngineError(
                        f"a worker on {socket.gethostname()} cannot load the host: "
                        f"{type(error).__name__}: {error}"
                    ) from error
        return _loaded[setup.token]


@contextmanager
def _watchdog(seconds: float | None) -> Iterator[None]:
    """End this process if the block takes longer.

    The clock is a thread of the C library's, so that code which never returns to Python cannot
    hold it up; where the process stood is printed on stderr.
    """
    if seconds is None:
        yield
        return
    faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
