"""A whole sweep into one folder: plan, skip what is finished, run the rest, write the tables."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments import provenance, run_record, tables
from experiments.baselines import BASELINE_SETTINGS, BASELINES
from experiments.cases import PlannedCase, plan_cases
from experiments.errors import InterruptedWriteError
from experiments.keys import ResultKey
from experiments.lock import folder_lock
from experiments.noise import noise_names
from experiments.run_case import Result, run_case
from experiments.store import ResultStore, clear_folder, prepare_folder
from experiments.variants import load_subjects, variant_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from experiments.config import SweepConfig
    from experiments.schema import CaseRow
    from experiments.variants import Subjects

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


@dataclass(frozen=True, eq=False)
class _Job:
    """One case and the names of the rows that are still to be computed for it."""

    planned: PlannedCase
    wanted: tuple[str, ...]


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
    report: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Run, or finish, the sweep ``config`` in ``folder`` and write its tables.

    A result is on disk before the next one starts, so a sweep that is stopped anywhere goes on
    where it was. Failed rows are tried again.

    Raises:
        ResultsError: the folder cannot be written, is in use, or belongs to another run.
        DataError: a table is unknown, unavailable or unusable; nothing has been computed then.
        retrofit.errors.RetrofitError: the host cannot be loaded or patched; likewise.
        InterruptedWriteError: a result could not be written; those before it are safe.
    """
    prepare_folder(folder)
    with folder_lock(folder), _threads(config.threads):
        started = provenance.now()
        planned = plan_cases(config)
        subjects = load(config)
        if fresh:
            clear_folder(folder)
        versions = tuple(provenance.versions(provenance.KEY_PACKAGES).items())
        keys = _Keys(config, subjects.host.sha256, versions)
        cases, noise = _open_stores(folder, planned, keys)
        jobs = _remaining(config, planned, keys, cases, noise)
        total = sum(len(job.wanted) for job in jobs)
        record = run_record.begin(config, planned, subjects, command, started)
        with _disk_errors(folder):
            run_record.write(folder, record)
            for done, (key, result) in enumerate(_results(config, jobs, subjects, keys), start=1):
                store = noise if "@" in key.variant else cases
                store.add(key, result.row, result.details)
                if report is not None:
                    report(Progress(done, total, result.row))
            finished = cases.records()
            run_record.write(folder, run_record.end(record, finished))
            tables.write_tables(folder, margin_pct=config.equivalence_margin_pct)
        statuses = [item.row.status for item in finished]
        return Outcome(
            folder,
            computed=total,
            reused=len(planned) * len(row_names(config)) - total,
            failed=statuses.count("failed"),
            skipped=statuses.count("skipped"),
        )


@dataclass(frozen=True)
class _Keys:
    """Builds the key of each row."""

    config: SweepConfig
    host_sha256: str
    versions: tuple[tuple[str, str], ...]

    def __call__(self, planned: PlannedCase, name: str) -> ResultKey:
        import torch

        config = self.config
        hosted = name not in BASELINES
        known = BASELINE_SETTINGS.get(name)
        return ResultKey(
            dataset=planned.case.dataset,
            data_sha256=planned.table.sha256,
            split_sha256=planned.split.sha256,
            seed=planned.case.seed,
            variant=name,
            settings=variant_settings(config, name.partition("@")[0]) if known is None else known,
            host_sha256=self.host_sha256 if hosted else "",
            n_estimators=config.n_estimators if hosted else 0,
            dtype=DTYPE if hosted else "float64",
            device=config.device if hosted else "cpu",
            threads=torch.get_num_threads(),
            cpu=torch.backends.cpu.get_cpu_capability(),
            versions=self.versions,
            code_sha256=provenance.code_sha256(),
        )


def _open_stores(
    folder: Path, planned: Sequence[PlannedCase], keys: _Keys
) -> tuple[ResultStore, ResultStore]:
    """Open both stores. Baselines and noise rows of an earlier run are welcome if not asked for."""
    all_noise = noise_names(keys.config.model_copy(update={"noise_floor": True}))
    all_cases = (*keys.config.variants, *BASELINES)
    cases = ResultStore(folder, [keys(case, name) for case in planned for name in all_cases])
    noise = ResultStore(
        folder, [keys(case, name) for case in planned for name in all_noise], kind="noise"
    )
    return cases, noise


def _remaining(
    config: SweepConfig,
    planned: Sequence[PlannedCase],
    keys: _Keys,
    cases: ResultStore,
    noise: ResultStore,
) -> list[_Job]:
    jobs = []
    for case in planned:
        wanted = tuple(
            name
            for name in row_names(config)
            if not (noise if "@" in name else cases).finished(keys(case, name))
        )
        if wanted:
            jobs.append(_Job(case, wanted))
    return jobs


def _results(
    config: SweepConfig, jobs: Sequence[_Job], subjects: Subjects, keys: _Keys
) -> Iterator[tuple[ResultKey, Result]]:
    for job in jobs:
        for result in run_case(config, job.planned, subjects, job.wanted):
            yield keys(job.planned, result.row.variant), result


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Use ``count`` torch threads inside the block; None leaves them as they are."""
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InterruptedWriteError(
            f"{folder}: writing failed ({error.strerror or error}); the results before it are "
            "safe: make room and run the same command again to go on"
        ) from error
