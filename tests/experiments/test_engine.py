"""Engines: the same bytes as the serial one, and a worker that dies costs its own case only."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from fakes import (
    load_fakes,
    load_nothing_in_workers,
    load_thread_counters,
    toy_frame,
    toy_source,
)
from threadpoolctl import threadpool_info

from experiments.data import registry
from experiments.errors import ConfigError, EngineError, MissingExtraError
from experiments.machine.threads import pinned_threads
from experiments.sweep.cases import plan_cases
from experiments.sweep.config import SweepConfig
from experiments.sweep.engines.engine import Engine, crowding
from experiments.sweep.engines.worker import (
    CaseOutcome,
    Job,
    Setup,
    require_equal,
    run_job,
    surroundings,
)
from experiments.sweep.folder.results import read_cases
from experiments.sweep.noise import other_kernels
from experiments.sweep.run import Outcome, run_sweep
from experiments.sweep.schema import TIMING_COLUMNS

KILLED, HANGS = 28, 35
"""Training rows of the tables whose fit ends, or never ends."""


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> SweepConfig:
    """Two harmless tables between two fatal ones."""
    frames = {
        "killed": toy_frame(40, 3),
        "left": toy_frame(20, 1),
        "hangs": toy_frame(50, 4),
        "right": toy_frame(24, 2),
    }
    monkeypatch.setattr(registry, "SOURCES", {"toy": toy_source(**frames)})
    return SweepConfig(suite="toy", host="fake", datasets=tuple(frames), seeds=(1,), threads=1)


def harmless(config: SweepConfig) -> SweepConfig:
    return config.model_copy(update={"datasets": ("left", "right")})


def sweep(config: SweepConfig, folder: Path, engine: Engine | None = None, **fatal) -> Outcome:
    load = functools.partial(load_fakes, **fatal)
    return run_sweep(config, folder, load=load, engine=engine or Engine())


def untimed(folder: Path, name: str = "cases.csv") -> pd.DataFrame:
    return read_cases(folder / name).drop(columns=list(TIMING_COLUMNS))


def without_fatal(folder: Path, name: str = "cases.csv") -> str:
    table = untimed(folder, name)
    return table[table["dataset"].isin(["left", "right"])].to_csv(index=False)


def test_processes_give_the_serial_bytes_and_a_death_or_a_hang_costs_its_case(
    config: SweepConfig, tmp_path: Path
) -> None:
    sweep(harmless(config), tmp_path / "serial")
    engine = Engine(jobs=2, case_timeout_s=4.0)
    outcome = sweep(config, tmp_path / "jobs", engine, killed=KILLED, hangs=HANGS)
    for name in ("cases.csv", "noise.csv"):
        assert without_fatal(tmp_path / "jobs", name) == without_fatal(tmp_path / "serial", name)
    table = untimed(tmp_path / "jobs").set_index("dataset")
    assert set(table.loc[["left", "right"], "status"]) == {"ok"}
    assert set(table.loc[["killed", "hangs"], "status"]) == {"failed"}
    assert table.loc["killed", "error"].str.contains("WorkerDiedError.*SIGKILL").all()
    assert table.loc["hangs", "error"].str.contains("CaseTimeoutError.*4 s").all()
    assert outcome.failed == 2 * 3
    run = json.loads((tmp_path / "jobs" / "run.json").read_text())
    assert run["engine"] == {
        "kind": "processes",
        "jobs": 2,
        "dask": None,
        "case_timeout_s": 4.0,
    }
    # Once the cause is gone the same folder is finished, by any engine.
    mended = sweep(config, tmp_path / "jobs")
    assert (mended.failed, mended.computed) == (0, 2 * 5)


def test_dask_gives_the_serial_bytes_and_a_death_costs_its_case(
    config: SweepConfig, tmp_path: Path
) -> None:
    three = config.model_copy(update={"datasets": ("left", "killed", "right")})
    sweep(harmless(three), tmp_path / "serial")
    tell = tmp_path / "fatal"
    engine = Engine(jobs=2, dask="local")
    outcome = sweep(three, tmp_path / "dask", engine, killed=KILLED, tell=str(tell))
    # Not tried on another worker, which it might end as well.
    assert tell.read_text() == "killed\n"
    for name in ("cases.csv", "noise.csv"):
        assert without_fatal(tmp_path / "dask", name) == without_fatal(tmp_path / "serial", name)
    table = untimed(tmp_path / "dask").set_index("dataset")
    assert table.loc["killed", "error"].str.contains("WorkerDiedError: the dask worker").all()
    assert outcome.failed == 3


@pytest.mark.parametrize(
    "engine", [Engine(), Engine(case_timeout_s=99.0), Engine(dask="local")], ids=lambda e: e.kind
)
def test_host_that_ends_the_program_costs_its_case(
    config: SweepConfig, tmp_path: Path, engine: Engine
) -> None:
    three = config.model_copy(update={"datasets": ("left", "killed", "right")})
    outcome = sweep(three, tmp_path, engine, exits=KILLED)
    table = untimed(tmp_path).set_index("dataset")
    assert set(table.loc[["left", "right"], "status"]) == {"ok"}
    assert set(table.loc["killed", "error"]) == {"SystemExit: 0"}
    assert outcome.failed == 3


def load_and_exit(config: SweepConfig):
    sys.exit(0)


def test_host_that_ends_the_program_as_it_is_loaded_is_an_error(
    config: SweepConfig, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match=r"ended the program \(sys.exit\(0\)\)"):
        run_sweep(harmless(config), tmp_path, load=load_and_exit)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"host_sha256": "e" * 64}, "host_sha256: e+ there, f+ here"),
        ({"cpu": (("torch", "NEON"),)}, r"cpu: .*'NEON'.* there"),
        ({"patches_sha256": "0"}, "patches_sha256"),
        ({"code_sha256": "0"}, "code_sha256"),
        ({"versions": (("torch", "1.0"),)}, r"torch', '1\.0'"),
    ],
)
def test_worker_that_would_give_other_numbers_is_refused(
    config: SweepConfig, change: dict[str, object], told: str
) -> None:
    here = surroundings(config, load_fakes(config))
    require_equal(here, CaseOutcome(here, "other-machine", ()))
    there = dataclasses.replace(here, **change)
    with pytest.raises(EngineError, match=rf"worker on other-machine .*\(.*{told}"):
        require_equal(here, CaseOutcome(there, "other-machine", ()))


def test_worker_that_cannot_load_the_host_says_so_and_is_ended(
    config: SweepConfig, tmp_path: Path
) -> None:
    tell = tmp_path / "pid"
    load = functools.partial(load_nothing_in_workers, parent=os.getpid(), tell=tell)
    with pytest.raises(EngineError) as caught:
        run_sweep(harmless(config), tmp_path, load=load, engine=Engine(case_timeout_s=99.0))
    assert "cannot load the host: FileNotFoundError: host.ckpt" in str(caught.value)
    # The error is still held here: a worker that were only forgotten would live as long as it.
    assert not is_alive(int(tell.read_text()))


def is_alive(pid: int) -> bool:
    """Whether a process is still there after a moment."""
    for _ in range(50):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        (Engine(), "serial"),
        (Engine(jobs=2), "processes"),
        (Engine(case_timeout_s=9.0), "processes"),
        (Engine(dask="local"), "dask"),
    ],
)
def test_a_timeout_needs_a_process_that_can_be_ended(engine: Engine, kind: str) -> None:
    assert engine.kind == kind


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"jobs": 0}, "jobs"), ({"case_timeout_s": 0.0}, "timeout")],
)
def test_useless_settings_are_refused(settings: dict[str, float], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Engine(**settings)


def test_more_threads_than_cores_are_remarked_upon_and_not_changed() -> None:
    cores = os.cpu_count() or 1
    assert "--threads 1" in crowding(Engine(jobs=cores + 1), 1)
    assert crowding(Engine(jobs=cores), 1) == ""
    assert crowding(Engine(), 100 * cores) == ""
    assert crowding(Engine(jobs=99, dask="tcp://elsewhere:8786"), 4) == ""


def test_dask_that_is_not_there_is_named(
    config: SweepConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"oretro\[dask\]"):
        sweep(harmless(config), tmp_path, Engine(dask="local"))


def test_scheduler_that_does_not_answer_is_named(
    config: SweepConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.sweep.engines.dask_cluster._CONNECT_S", 0.5)
    with pytest.raises(ConfigError, match=r"no dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        sweep(harmless(config), tmp_path, Engine(dask="tcp://127.0.0.1:9"))


@pytest.mark.parametrize("engine", [Engine(), Engine(case_timeout_s=99.0), Engine(dask="local")])
def test_threads_are_pinned_where_a_case_runs_and_given_back(
    config: SweepConfig, tmp_path: Path, engine: Engine
) -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        one = config.model_copy(update={"datasets": ("left",), "threads": 2, "noise_floor": False})
        told: list[str] = []
        run_sweep(
            one,
            tmp_path,
            load=functools.partial(load_thread_counters, parent=os.getpid()),
            engine=engine,
            report=lambda progress: told.append(progress.row.error),
        )
        place = "here" if engine.kind == "serial" else "in a worker"
        assert told == [f"RuntimeError: torch 2, BLAS [2], {place}"] * 3
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def three_threads() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def threads_here() -> tuple[int, list[int], list[str]]:
    """Those of torch, of the BLAS beside it, and of what it has built in, which it alone tells."""
    import torch

    built_in = re.findall(r"max_threads\(\) : (\d+)", torch.__config__.parallel_info())
    blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return torch.get_num_threads(), blas, built_in


@pytest.mark.parametrize(
    ("block", "inside"), [(lambda: pinned_threads(2), 2), (other_kernels, 1)], ids=["pin", "noise"]
)
def test_threads_are_put_back_after_a_block(three_threads: None, block, inside: int) -> None:
    before = threads_here()
    with block():
        assert threads_here()[0] == inside
    assert threads_here() == before
    assert before[0] == 3
    with pytest.raises(RuntimeError, match="on the way"), block():
        raise RuntimeError("on the way")
    assert threads_here() == before


def test_worker_puts_threads_back_after_a_case(config: SweepConfig, three_threads: None) -> None:
    two = config.model_copy(update={"datasets": ("left",), "threads": 2})
    load = functools.partial(load_thread_counters, parent=os.getpid())
    (planned,) = plan_cases(two)
    before = threads_here()
    outcome = run_job(Setup("token", two, 2, load), Job(planned, ("stock",)))
    assert outcome.results[0].row.error.startswith("RuntimeError: torch 2, BLAS [2]")
    assert threads_here() == before
    assert before[0] == 3


@pytest.mark.slow
@pytest.mark.timeout(900)  # seconds of work, but two workers and their host on a busy machine
def test_real_host_gives_the_same_bytes_in_workers_after_threads_ran_here(tmp_path: Path) -> None:
    """The parent has computed on two threads before: forked workers would hang for ever."""
    import torch

    table = tmp_path / "tiny.csv"
    toy_frame(30, 7).to_csv(table, index=False)
    real = SweepConfig(
        suite="tiny",
        host="mini",
        variants=("stock", "oa@0.99"),
        files=({"path": str(table), "target": "y"},),
        seeds=(1, 2),
        n_estimators=1,
        threads=1,
        noise_floor=False,
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.ones(500, 500) @ torch.ones(500, 500)
    torch.set_num_threads(before)
    run_sweep(real, tmp_path / "serial")
    run_sweep(real, tmp_path / "jobs", engine=Engine(jobs=2))
    serial, jobs = untimed(tmp_path / "serial"), untimed(tmp_path / "jobs")
    assert set(serial["status"]) == {"ok"}
    assert serial.to_csv() == jobs.to_csv()
    stock, gated = (jobs.loc[jobs["variant"] == name, "rmse"] for name in real.variants)
    assert (stock.to_numpy() != gated.to_numpy()).all()
