"""What predicting many tables in padded passes gains over one table after the other.

Two ratios are taken: of the whole, with each table's preprocessing, which padding cannot speed up;
and of the model's forward passes alone, on tables that are prepared already.

Shapes: R rows, B ensemble members, C columns.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.errors import BenchmarkError, ConfigError
from experiments.machine import provenance
from experiments.machine.device import device_model
from experiments.report import markdown
from experiments.report.columns import Column, show
from experiments.report.remarks import notice
from experiments.studies.bench.timer import interleaved, quartiles
from experiments.studies.writer import write_study

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torch import Tensor

    from retrofit import Host, Patched
    from retrofit.closed.padded_passes import ModelCall

TOLERANCE = 1e-5
"""Largest deviation of a prediction, in standard deviations of the table's targets."""
_ROWS, _COLUMNS, _TEST_SHARE = (20, 120), (3, 12), 0.25

Task = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class TablesRow:
    """One number of ensemble members."""

    tables: int
    members: int
    device: str
    threads: int
    deviation: float
    """Largest deviation from the one-by-one predictions, in standard deviations of the targets."""
    loop_s: float
    """Median seconds of one table after the other, preprocessing included."""
    whole_ratio: float
    """Median over the rounds of loop / ``predict_tables``."""
    passes: int
    """Forward passes of the model in ``predict_tables``."""
    padding: float
    """Work of the padded passes over that of the tables alone."""
    forward_ratio: float
    """Median over the rounds of the same for the forward passes alone."""


def draw_tables(count: int, seed: int = 0) -> list[Task]:
    """Seeded tables of 20 to 120 rows and 3 to 12 columns; a quarter of the rows is predicted."""
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(count):
        rows, columns = rng.integers(*_ROWS, endpoint=True), rng.integers(*_COLUMNS, endpoint=True)
        X = rng.normal(size=(rows, columns))
        X[:, 1] = rng.integers(0, 4, size=rows)
        y = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=rows)
        train = rows - int(_TEST_SHARE * rows)
        tables.append((X[:train], y[:train], X[train:]))
    return tables


def bench_tables(
    host: Host,
    *,
    tables: int = 64,
    members: Sequence[int] = (1, 8),
    rounds: int = 5,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda _: None,
) -> list[TablesRow]:
    """Predict many tables both ways, compare, and time.

    Raises:
        ConfigError: there is nothing to predict.
        BenchmarkError: the two ways do not agree.
        retrofit.errors.RetrofitError: the host cannot be patched.
    """
    import retrofit

    if tables < 1 or rounds < 1 or not members or min(members) < 1:
        raise ConfigError("tables, members and rounds must each be at least 1")
    closed = retrofit.patch(host, "closed")
    drawn = draw_tables(tables)
    rows = []
    for count in members:
        progress(f"{tables} tables, {count} ensemble members")
        rows.append(_row(closed, drawn, count, rounds, device))
    return rows


def _row(closed: Patched, tables: list[Task], members: int, rounds: int, device: str) -> TablesRow:
    import torch

    import retrofit

    settings: dict[str, Any] = {"n_estimators": members, "random_state": 0, "device": device}

    def loop() -> list[np.ndarray]:
        # Making a regressor copies the model's structure; a loop that is well written does it once.
        regressor = closed.regressor(**settings)
        return [regressor.fit(X, y).predict(T) for X, y, T in tables]

    def together() -> list[np.ndarray]:
        return retrofit.predict_tables(closed, tables, **settings)

    deviation = max(
        float(np.abs(one - many).max() / y.std())
        for one, many, (_, y, _) in zip(loop(), together(), tables, strict=True)
    )
    if not deviation <= TOLERANCE:
        raise BenchmarkError(
            f"predictions of padded tables deviate by {deviation:.2g} standard deviations of the "
            f"target from those of one table at a time; at most {TOLERANCE:g} is rounding"
        )
    whole = interleaved({"loop": loop, "padded": together}, rounds)
    forward, passes, padding = _forward(closed, tables, members, rounds, device)
    return TablesRow(
        tables=len(tables),
        members=members,
        device=device_model(device),
        threads=torch.get_num_threads(),
        deviation=deviation,
        loop_s=float(np.median(whole["loop"])),
        whole_ratio=quartiles(whole["loop"], whole["padded"])[1],
        passes=passes,
        padding=padding,
        forward_ratio=quartiles(forward["loop"], forward["padded"])[1],
    )


def _forward(
    closed: Patched, tables: list[Task], members: int, rounds: int, device: str
) -> tuple[dict[str, np.ndarray], int, float]:
    """Seconds of the model's passes both ways, number of padded passes, work in padding."""
    import torch

    from retrofit.closed.buckets import plan_buckets
    from retrofit.closed.padded_passes import ModelCall, run_calls

    model = closed.regressor().model_path.model.to(device)
    generator = torch.Generator().manual_seed(0)
    by_table: list[list[ModelCall]] = []
    for X, y, X_test in tables:
        # Preprocessing adds columns, about as many again.
        shape = (len(y) + len(X_test), 2 * X.shape[1])
        drawn = [torch.randn(shape, generator=generator).to(device) for _ in range(members)]
        y_N = torch.randn(len(y), generator=generator).to(device)
        by_table.append([ModelCall(x_RC, y_N, {}) for x_RC in drawn])
    calls = [call for calls in by_table for call in calls]

    def of_one_table(own: list[ModelCall]) -> Tensor:
        x_RBC, y_NB = torch.stack([c.x_RC for c in own], 1), torch.stack([c.y_N for c in own], 1)
        logits_MBL: Tensor = closed.generation.run(model, x_RBC, y_NB)
        return logits_MBL

    def one_by_one() -> list[Tensor]:
        with torch.inference_mode():
            return [of_one_table(own) for own in by_table]

    # The way to the CPU waits for the device.
    def one_after_the_other() -> list[Tensor]:
        return [out.cpu() for out in one_by_one()]

    def together() -> list[Tensor]:
        return [out.cpu() for out in run_calls(model, calls)]

    sizes = [call.size for call in calls]
    cost = closed.generation.cost(model.config, torch.device(device).type)
    plan = plan_buckets(sizes, cost)
    padded = sum(len(indices) * cost.per_table(size) for size, indices in plan)
    seconds = interleaved({"loop": one_after_the_other, "padded": together}, rounds)
    return seconds, len(plan), padded / sum(map(cost.per_table, sizes))


COLUMNS: tuple[Column[TablesRow], ...] = (
    Column("members", "members"),
    Column("deviation", "deviation", "{:.1e}".format),
    Column("loop_s", "loop", "{:.2f} s".format),
    Column("whole_ratio", "loop / padded", "{:.2f}".format),
    Column("passes", "passes"),
    Column("padding", "work in padding", lambda padding: f"{100 * (padding - 1):.0f} %"),
    Column("forward_ratio", "forward passes alone", "{:.2f}".format),
)


def write_tables_bench(
    folder: Path, host: str, rows: Sequence[TablesRow], command: Sequence[str], *, built_in: bool
) -> list[Path]:
    """Write ``tables.{csv,md,json}`` and return their paths.

    Raises:
        ResultsError: the folder cannot be written.
    """
    import pandas as pd

    made = (
        f"Made by `{shlex.join(command)}` on {rows[0].device}, {rows[0].threads} threads. Tables "
        "of 20 to 120 rows and 3 to 12 columns; the deviation is from one table at a time, in "
        "standard deviations of the target. Ratios above 1 favour `predict_tables`."
    )
    title = f"# {rows[0].tables} tables in padded passes on `{host}`"
    table = markdown.table(*show(COLUMNS, rows))
    whose = markdown.line(notice(host)) if built_in else ""
    page = markdown.page([title, whose, made, table])
    record = provenance.record(command, device=rows[0].device)
    return write_study(folder, "tables", {"tables": pd.DataFrame(rows)}, page, record, digits=4)
