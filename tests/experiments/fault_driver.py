"""Sweeps that end badly, in forked children of one process that has everything imported.

Usage: python fault_driver.py TEST FOLDER; prints one JSON document.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from fakes import load_fakes, toy_frame, toy_source

from experiments.data import registry
from experiments.errors import ExperimentError
from experiments.sweep.config import SweepConfig
from experiments.sweep.engines.engine import Engine
from experiments.sweep.folder.results import read_cases
from experiments.sweep.run import Outcome, Progress, run_sweep
from experiments.sweep.schema import TIMING_COLUMNS

registry.SOURCES = {"toy": toy_source(left=toy_frame(20, 1), right=toy_frame(24, 2))}
# A kill leaves what was written to the system's memory; only a power cut needs the flush.
os.fsync = lambda descriptor: None
CONFIG = SweepConfig(suite="toy", host="fake", datasets=("left", "right"), seeds=(1, 2), threads=1)


MANY = CONFIG.model_copy(update={"seeds": tuple(range(12))})


def sweep(
    folder: Path, engine: Engine | None = None, pause: float = 0.0, config: SweepConfig = CONFIG
) -> Outcome:
    def wait(_: Progress) -> None:
        time.sleep(pause)

    return run_sweep(config, folder, load=load_fakes, engine=engine or Engine(), report=wait)


def untimed(folder: Path) -> str:
    return "".join(
        read_cases(folder / name).drop(columns=list(TIMING_COLUMNS)).to_csv()
        for name in ("cases.csv", "noise.csv")
    )


def child(work) -> int:
    """Run ``work`` in a forked child and return its pid; it exits 0, or 1 with its error named."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except ExperimentError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def kills(root: Path) -> object:
    """Kill a sweep at 20 random moments of its life, and finish it."""
    sweep(root / "warm")
    start = time.monotonic()
    sweep(root / "whole", pause=0.01)
    length = time.monotonic() - start
    whole = untimed(root / "whole")
    moments = random.Random(20260801)
    outcomes = []
    for turn in range(20):
        folder = root / str(turn)
        pid = child(lambda folder=folder: sweep(folder, pause=0.01))
        time.sleep(moments.uniform(0.0, 1.1 * length))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        outcome = sweep(folder)
        outcomes.append(
            {
                "killed": os.WIFSIGNALED(status),
                "reused": outcome.reused,
                "failed": outcome.failed,
                "equal": untimed(folder) == whole,
            }
        )
    return outcomes


def with_workers(folder: Path) -> object:
    """Run a sweep with two workers, slowly."""
    return sweep(folder, Engine(jobs=2), pause=0.2).failed


def killed_with_workers(root: Path) -> object:
    """Kill a sweep that has two workers after its first rows, and finish it at once."""
    sweep(root / "whole")
    folder = root / "killed"
    # Not forked: a forked process cannot start workers of its own reliably.
    first = subprocess.Popen([sys.executable, __file__, "with_workers", str(folder)])
    while len(list((folder / "cases").glob("*.json"))) < 2:
        time.sleep(0.02)
    workers = children(first.pid)
    first.kill()
    first.wait()
    outcome = sweep(folder)
    deadline = time.monotonic() + 30
    while (left := [pid for pid in workers if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return {
        "reused": outcome.reused,
        "equal": untimed(folder) == untimed(root / "whole"),
        "workers": len(workers),
        "left": len(left),
    }


def children(pid: int) -> list[int]:
    """Processes that a process has started, on Linux."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def two(root: Path) -> object:
    """Start a second sweep on a folder that a first one is writing."""
    pid = child(lambda: sweep(root, pause=0.2))
    while not list((root / "cases").glob("*.json")):
        time.sleep(0.01)
    try:
        sweep(root)
        told = ""
    except ExperimentError as error:
        told = f"{type(error).__name__}: {error}"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return {"first": pid, "told": told, "then": sweep(root).failed}


def full(root: Path) -> object:
    """Let no file grow beyond the size that ``cases.csv`` has after a few rows."""
    sweep(root / "whole", config=MANY)
    table = root / "whole" / "cases.csv"
    limit = table.stat().st_size // 2
    folder = root / "full"

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        sweep(folder, config=MANY)

    _, status = os.waitpid(child(work), 0)
    lines = (folder / "cases.csv").read_text().splitlines()
    rubbish = [path.name for path in folder.rglob("*.tmp")]
    stored = len(list((folder / "cases").glob("*.json")))
    outcome = sweep(folder, config=MANY)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "rows": len(lines) - 1,
        "whole_lines": all(line.count(",") >= 19 for line in lines),
        "stored": stored,
        "rubbish": rubbish,
        "reused": outcome.reused,
        "equal": untimed(folder) == untimed(root / "whole"),
    }


TESTS = (kills, with_workers, killed_with_workers, two, full)

if __name__ == "__main__":
    test = {item.__name__: item for item in TESTS}[sys.argv[1]]
    print(json.dumps(test(Path(sys.argv[2]))))
