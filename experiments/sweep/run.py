"""A whole sweep into one folder: plan, skip what is finished, run the rest, write the tables."""

from __future__ import annotations

import os
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.errors import EngineError, InterruptedWriteError, ResultsError
from experiments.io.own_files import clear_folder, sweep_leftovers
from experiments.machine import provenance
from experiments.machine.code import code_sha256
from experiments.machine.device import device_model, resolve_device
from experiments.machine.kernels import kernel_choice
from experiments.machine.threads import pinned_threads, refuse_too_many
from experiments.report import tables
from experiments.report.scores import write_side_tables
from experiments.sweep import run_record
from experiments.sweep.baselines import BASELINE_SETTINGS, BASELINES
from experiments.sweep.cases import Case, PlannedCase, enumerate_cases, plan_cases
from experiments.sweep.engines.engine import LOCAL, Engine, run_jobs
from experiments.sweep.engines.worker import Job, Setup
from experiments.sweep.folder.keys import ResultKey
from experiments.sweep.folder.lock import folder_lock
from experiments.sweep.folder.predictions import DETAIL, require_parquet, write_predictions
from experiments.sweep.folder.store import ResultStore, prepare_folder
from experiments.sweep.noise import noise_names
from experiments.sweep.variant_name import is_noise
from experiments.sweep.variants import load_subjects, variant_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from experiments.sweep.config import SweepConfig
    from experiments.sweep.folder.store import Record
    from experiments.sweep.schema import CaseRow
    from experiments.sweep.variants import Subjects

DTYPE = "float32"
"""The one dtype of every comparison (plan, section 4): "auto" is bfloat16 on some processors."""


@dataclass(frozen=True)
class Progress:
    """Where a sweep stands after one more result."""

    done: int
    total: int
    row: CaseRow
    """The row that was just finished."""


@dataclass(frozen=True)
class Outcome:
    """What a finished sweep amounts to."""

    folder: Path
    computed: int
    reused: int
    failed: int
    skipped: int
    missing: tuple[tuple[str, str], ...] = ()
    """Data sets that could not be had, with the reason; the next run tries them again."""
    damaged: tuple[str, ...] = ()
    """Records whose content was not what had been written; their cases were computed again."""


def row_names(config: SweepConfig) -> tuple[str, ...]:
    """Rows of every case that this configuration asks for, in the order in which they run."""
    baselines = tuple(BASELINES) if config.baselines else ()
    return (*baselines, *config.variants, *noise_names(config))


def run_sweep(
    config: SweepConfig,
    folder: Path,
    *,
    fresh: bool = False,
    command: Sequence[str] = (),
    load: Callable[[SweepConfig], Subjects] = load_subjects,
    engine: Engine = Engine(),  # noqa: B008  (frozen)
    report: Callable[[Progress], None] | None = None,
    before_noise: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run, or finish, the sweep ``config`` in ``folder`` and write its tables.

    Without worker processes the noise floor is measured after all variants; ``before_noise`` is
    called in between, when the tables of the variants are written.

    A result is on disk before the next one starts, so a sweep that is stopped anywhere goes on
    where it was; worker processes hand their rows back case by case. This process alone writes.
    Failed rows are tried again.

    Raises:
        ConfigError: there is no such device, or not so many threads, here; nothing has been
            touched then.
        MissingExtraError: predictions are to be saved, and nothing here writes parquet.
        ResultsError: the folder cannot be written, is in use, or belongs to another run.
        DataError: a name is unknown, or no table can be had; nothing has been computed then.
        retrofit.errors.RetrofitError: the host cannot be loaded or patched; likewise.
        EngineError: no worker can be had, or one of them would give other numbers.
        InterruptedWriteError: a result could not be written; those before it are safe.
    """
    import torch

    config = config.model_copy(update={"device": resolve_device(config.device)})
    if engine.dask in (None, LOCAL):
        refuse_too_many(config.threads)
    if config.save_predictions:
        require_parquet()
    prepare_folder(folder)
    threads = config.threads or torch.get_num_threads()
    with folder_lock(folder), pinned_threads(threads):
        started = provenance.now()
        sweep_leftovers(folder)
        missing: dict[str, str] = {}
        planned = plan_cases(config, missing)
        subjects = _loaded(load, config)
        if fresh:
            clear_folder(folder)
        versions = tuple(provenance.versions(provenance.KEY_PACKAGES).items())
        keys = _Keys(config, subjects.host.sha256, versions)
        cases, noise = _open_stores(folder, planned, keys, missing)
        damaged = (*cases.damaged, *noise.damaged)
        jobs = _remaining(config, planned, keys, cases, noise, apart=engine.kind == "serial")
        total = sum(len(job.wanted) for job in jobs)
        record = run_record.begin(config, planned, subjects, command, started, engine)
        record["missing"] = missing
        record["damaged"] = list(damaged)
        with _disk_errors(folder):
            run_record.write(folder, record)
        setup = Setup(_token(), config, threads, load, engine.case_timeout_s)
        left = sum(not is_noise(name) for job in jobs for name in job.wanted)

        def write() -> list[Record]:
            finished = cases.records()
            with _disk_errors(folder):
                for store in (cases, noise):
                    store.write_table()
                write_predictions(folder, finished)
                write_side_tables(folder, (item.row for item in finished))
                tables.write_tables(folder, margin_pct=config.equivalence_margin_pct)
            return finished

        for done, (job, result) in enumerate(run_jobs(engine, setup, subjects, jobs), start=1):
            of_noise = is_noise(result.row.variant)
            with _disk_errors(folder):
                (noise if of_noise else cases).add(
                    keys(job.planned, result.row.variant), result.row, result.details
                )
            if report is not None:
                report(Progress(done, total, result.row))
            left -= not of_noise
            if left == 0 and not of_noise and done < total and engine.kind == "serial":
                write()
                before_noise()
        finished = write()
        with _disk_errors(folder):
            run_record.write(folder, run_record.end(record, finished, folder))
        statuses = [item.row.status for item in finished]
        return Outcome(
            folder,
            computed=total,
            reused=len(planned) * len(row_names(config)) - total,
            failed=statuses.count("failed"),
            skipped=statuses.count("skipped"),
            missing=tuple(missing.items()),
            damaged=damaged,
        )


def _loaded(load: Callable[[SweepConfig], Subjects], config: SweepConfig) -> Subjects:
    try:
        return load(config)
    except SystemExit as error:
        raise EngineError(
            f"code of the host '{config.host}' ended the program (sys.exit({error.code!r})) while "
            "it was loaded"
        ) from error


@dataclass(frozen=True)
class _Keys:
    """Builds the key of each row."""

    config: SweepConfig
    host_sha256: str
    versions: tuple[tuple[str, str], ...]

    def __call__(self, planned: PlannedCase, name: str) -> ResultKey:
        return self.of_case(planned.case, name, planned.table.sha256, planned.split.sha256)

    def of_case(
        self, case: Case, name: str, data_sha256: str = "", split_sha256: str = ""
    ) -> ResultKey:
        """The key of a row; the hashes of a table that cannot be had are unknown."""
        import torch

        config = self.config
        hosted = name not in BASELINES
        known = BASELINE_SETTINGS.get(name)
        return ResultKey(
            dataset=case.dataset,
            data_sha256=data_sha256,
            split_sha256=split_sha256,
            seed=case.seed,
            variant=name,
            settings=(
                *(variant_settings(config, name) if known is None else known),
                *(("metric", scorer) for scorer in config.metric),
            ),
            host_sha256=self.host_sha256 if hosted else "",
            n_estimators=config.n_estimators if hosted else 0,
            dtype=DTYPE if hosted else "float64",
            device=device_model(config.device) if hosted else "cpu",
            threads=torch.get_num_threads(),
            cpu=kernel_choice(),
            versions=self.versions,
            code_sha256=code_sha256(),
        )


def _open_stores(
    folder: Path, planned: Sequence[PlannedCase], keys: _Keys, missing: Collection[str]
) -> tuple[ResultStore, ResultStore]:
    """Open both stores.

    Baselines and noise rows of an earlier run are welcome if not asked for, and so are rows of a
    data set that is ``missing`` at the moment.
    """
    all_noise = noise_names(keys.config.model_copy(update={"noise_floor": True}))
    all_cases = (*keys.config.variants, *BASELINES)
    away = [case for case in enumerate_cases(keys.config) if case.dataset in missing]
    cases, noise = (
        ResultStore(
            folder,
            [keys(case, name) for case in planned for name in names],
            kind=kind,
            away=[keys.of_case(case, name) for case in away for name in names],
        )
        for kind, names in (("cases", all_cases), ("noise", all_noise))
    )
    for record in (*cases.records(), *noise.records()):
        if record.row.suite != keys.config.suite:
            raise ResultsError(
                f"{folder} belongs to another run: it holds results of suite '{record.row.suite}', "
                f"not '{keys.config.suite}'; choose another --out, or pass --fresh to start this "
                "folder anew"
            )
    return cases, noise


def _remaining(
    config: SweepConfig,
    planned: Sequence[PlannedCase],
    keys: _Keys,
    cases: ResultStore,
    noise: ResultStore,
    *,
    apart: bool,
) -> list[Job]:
    """What is not finished, by case; with ``apart`` the noise floors of all cases come last.

    Worker processes get a case whole: one that ends its process is not handed out twice.
    """

    def finished(case: PlannedCase, name: str) -> bool:
        if is_noise(name):
            return noise.finished(keys(case, name))
        return cases.finished(keys(case, name), DETAIL if config.save_predictions else "")

    names = row_names(config)
    parts = [names]
    if apart:
        parts = [tuple(n for n in names if is_noise(n) == of_noise) for of_noise in (False, True)]
    jobs = [
        Job(case, tuple(name for name in part if not finished(case, name)))
        for part in parts
        for case in planned
    ]
    return [job for job in jobs if job.wanted]


def _token() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InterruptedWriteError(
            f"{folder}: writing failed ({error.strerror or error}); the results before it are "
            "safe: make room and run the same command again to go on"
        ) from error
