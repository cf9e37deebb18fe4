"""What the harness adds to a comparison: a sweep beside a plain loop of the same predictions."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.errors import BenchmarkError
from experiments.machine import provenance
from experiments.report import markdown
from experiments.report.columns import Column, show
from experiments.report.remarks import notice
from experiments.studies.bench.timer import timed
from experiments.studies.writer import write_study
from experiments.sweep.cases import plan_cases
from experiments.sweep.evaluate import read_results
from experiments.sweep.metrics import levels
from experiments.sweep.run import run_sweep
from experiments.sweep.shared_fit import with_model
from experiments.sweep.variants import load_subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from experiments.sweep.config import SweepConfig
    from experiments.sweep.variants import Subjects


@dataclass(frozen=True)
class SweepRow:
    """One round: the whole of both on the clock, loading and patching the host with them."""

    cases: int
    predictions: int
    loop_s: float
    sweep_s: float
    ratio: float


def bench_sweep(
    config: SweepConfig,
    *,
    rounds: int = 1,
    progress: Callable[[str], None] = lambda _: None,
    load: Callable[[SweepConfig], Subjects] = load_subjects,
) -> list[SweepRow]:
    """Time a sweep without its noise floor, and the loop, one after the other.

    Raises:
        BenchmarkError: the two do not find the same scores.
        DataError: a table cannot be had.
        retrofit.errors.RetrofitError: the host cannot be loaded or patched.
    """
    config = config.model_copy(update={"noise_floor": False})
    rows = []
    for number in range(rounds):
        seconds: dict[str, float] = {}
        found: dict[str, np.ndarray] = {}
        turns = {"sweep": _sweep, "loop": _loop}
        for name in list(turns)[:: -1 if number % 2 else 1]:
            progress(f"round {number + 1} of {rounds}: {name}")
            found[name], seconds[name] = timed(partial(turns[name], config, load))
        if not np.allclose(found["sweep"], found["loop"], rtol=1e-9):
            raise BenchmarkError("sweep and loop find different scores; their times mean nothing")
        predictions = len(found["loop"])
        rows.append(
            SweepRow(
                cases=predictions // len(config.variants),
                predictions=predictions,
                loop_s=seconds["loop"],
                sweep_s=seconds["sweep"],
                ratio=seconds["sweep"] / seconds["loop"],
            )
        )
    return rows


def _sweep(config: SweepConfig, load: Callable[[SweepConfig], Subjects]) -> np.ndarray:
    """RMSE of every case and variant."""
    with TemporaryDirectory(prefix="oretro-") as folder:
        run_sweep(config, Path(folder), load=load)
        rows = read_results(folder)
    return np.array(rows.sort_values(["dataset", "seed", "variant"])["rmse"])


def _loop(config: SweepConfig, load: Callable[[SweepConfig], Subjects]) -> np.ndarray:
    """The same, as one would write it: preprocessing fitted once, then a prediction per model."""
    import torch

    subjects = load(config)
    models = {patched.name: patched.model for patched in subjects.patched}
    found = []
    for planned in plan_cases(config, {}):
        X, y, split = planned.table.X, planned.table.y, planned.split
        stock = subjects.host.regressor(
            n_estimators=config.n_estimators,
            random_state=planned.case.seed,
            device=config.device,
            inference_precision=torch.float32,
            fit_mode="fit_preprocessors",
            ignore_pretraining_limits=True,
        ).fit(X.iloc[split.train], y[split.train])
        for name in config.variants:
            regressor = with_model(stock, models[name]) if name in models else stock
            output = regressor.predict(
                X.iloc[split.test], output_type="full", quantiles=list(levels())
            )
            error = np.asarray(output["mean"], dtype=np.float64) - y[split.test]
            rmse = float(np.sqrt(np.mean(np.square(error))))
            found.append((planned.case.dataset, planned.case.seed, name, rmse))
    return np.array([rmse for *_, rmse in sorted(found)])


COLUMNS: tuple[Column[SweepRow], ...] = (
    Column("cases", "cases"),
    Column("predictions", "predictions"),
    Column("loop_s", "plain loop", "{:.1f} s".format),
    Column("sweep_s", "sweep", "{:.1f} s".format),
    Column("ratio", "sweep / loop", "{:.3f}".format),
)


def write_sweep_bench(
    folder: Path, host: str, rows: Sequence[SweepRow], command: Sequence[str], *, built_in: bool
) -> list[Path]:
    """Write table, page and record.

    Raises:
        ResultsError: the folder cannot be written.
    """
    record = provenance.record(command)
    page = markdown.page(
        [
            f"# A sweep on `{host}` beside a plain loop of its predictions",
            markdown.line(notice(host)) if built_in else "",
            (
                "Both load the host, patch it, fit the preprocessing of each case once and predict "
                "once by every model; the sweep records, checks and writes besides. A row is a "
                f"round. Made by `{shlex.join(command)}` on {record['machine']['torch_threads']} "
                "threads."
            ),
            markdown.table(*show(COLUMNS, rows)),
        ]
    )
    return write_study(folder, "sweep", {"sweep": pd.DataFrame(rows)}, page, record)
