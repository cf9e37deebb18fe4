"""What predicting many tables in padded passes gains over one table after the other.

Both ways are timed in turn within a round, so a machine that drifts slows both. Two ratios are
taken: of the whole, with each table's preprocessing, which padding cannot speed up; and of the
model's forward passes alone, on tables that are prepared already.

Shapes: R rows, B ensemble members, C columns.
"""

from __future__ import annotations

import io
import json
import time
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.errors import BenchmarkError, ConfigError
from experiments.io.writable import write_files
from experiments.machine import provenance
from experiments.machine.device import device_model
from experiments.report import markdown
from experiments.report.remarks import MINI_NOTICE

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
    whole = _in_turn(loop, together, rounds)
    forward, passes, padding = _forward(closed, tables, members, rounds, device)
    return TablesRow(
        tables=len(tables),
        members=members,
        device=device_model(device),
        threads=torch.get_num_threads(),
        deviation=deviation,
        loop_s=median(one for one, _ in whole),
        whole_ratio=median(one / many for one, many in whole),
        passes=passes,
        padding=padding,
        forward_ratio=median(one / many for one, many in forward),
    )


def _forward(
    closed: Patched, tables: list[Task], members: int, rounds: int, device: str
) -> tuple[list[tuple[float, float]], int, float]:
    """Seconds of the model's passes both ways, number of padded passes, work in padding."""
    import torch

    from retrofit.closed.buckets import plan_buckets
    from retrofit.closed.padded_passes import ModelCall, run_calls
    from retrofit.hosts.registry import generation_of_model

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

    def one_by_one() -> list[Tensor]:
        with torch.inference_mode():
            return [
                model(torch.stack([c.x_RC for c in own], 1), torch.stack([c.y_N for c in own], 1))
                for own in by_table
            ]

    # The way to the CPU waits for the device.
    def one_after_the_other() -> list[Tensor]:
        return [out.cpu() for out in one_by_one()]

    def together() -> list[Tensor]:
        return [out.cpu() for out in run_calls(model, calls)]

    sizes = [call.size for call in calls]
    cost = generation_of_model(model).cost(model.config, torch.device(device).type)
    plan = plan_buckets(sizes, cost)
    padded = sum(len(indices) * cost.per_table(size) for size, indices in plan)
    seconds = _in_turn(one_after_the_other, together, rounds)
    return seconds, len(plan), padded / sum(map(cost.per_table, sizes))


def _in_turn(
    first: Callable[[], Any], second: Callable[[], Any], rounds: int
) -> list[tuple[float, float]]:
    """Seconds of both, once per round; a round before the first warms up."""
    seconds = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        first()
        middle = time.perf_counter()
        second()
        seconds.append((middle - start, time.perf_counter() - middle))
    return seconds[1:]


def cells(rows: Sequence[TablesRow]) -> tuple[Sequence[str], list[list[str]]]:
    """The rows as a table to print."""
    header = (
        "members",
        "deviation",
        "loop",
        "loop / padded",
        "passes",
        "work in padding",
        "forward passes alone",
    )
    return header, [
        [
            str(row.members),
            f"{row.deviation:.1e}",
            f"{row.loop_s:.2f} s",
            f"{row.whole_ratio:.2f}",
            str(row.passes),
            f"{100 * (row.padding - 1):.0f} %",
            f"{row.forward_ratio:.2f}",
        ]
        for row in rows
    ]


def write_tables_bench(
    folder: Path, host: str, rows: Sequence[TablesRow], command: Sequence[str], *, built_in: bool
) -> list[Path]:
    """Write ``tables.{csv,md,json}`` and return their paths.

    Raises:
        ResultsError: the folder cannot be written.
    """
    import pandas as pd

    buffer = io.StringIO()
    frame = pd.DataFrame([asdict(row) for row in rows])
    frame.to_csv(buffer, index=False, lineterminator="\n", float_format="%.4g")
    about = {"machine": provenance.machine(), "versions": provenance.versions()}
    made = (
        f"Made by `{' '.join(command)}` on {rows[0].device}, {rows[0].threads} threads. Tables of "
        "20 to 120 rows and 3 to 12 columns; the deviation is from one table at a time, in "
        "standard deviations of the target. Ratios above 1 favour `predict_tables`."
    )
    parts = [
        f"# {rows[0].tables} tables in padded passes on `{host}`",
        markdown.line(MINI_NOTICE) if built_in else "",
        made,
        markdown.table(*cells(rows)),
    ]
    record = {"schema": 1, "command": list(command), "code": provenance.git_state(), **about}
    texts = {
        "tables.csv": buffer.getvalue(),
        "tables.md": "\n\n".join(part for part in parts if part) + "\n",
        "tables.json": json.dumps(record, indent=1) + "\n",
    }
    return write_files(folder, texts)
