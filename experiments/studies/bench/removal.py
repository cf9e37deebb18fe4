"""What leaving every row out costs: a removable table beside refits and tabpfn's own batches.

Shapes: N rows, each held out once.
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
from experiments.studies.bench import shapley
from experiments.studies.bench.timer import interleaved, quartiles
from experiments.studies.writer import write_study

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from retrofit import Host, Patched

TOLERANCE = 1e-5
"""Largest deviation of ``pipeline`` from refits, in standard deviations of the target."""
LOOP = "refit loop"
WAYS = ("predict_batched", "scope pipeline", "scope model")


@dataclass(frozen=True)
class RemovalRow:
    """One way of answering, and how many ensemble members."""

    rows: int
    columns: int
    members: int
    way: str
    device: str
    threads: int
    loop_s: float
    """Median seconds of the refit loop."""
    ratio: float
    """Median over the rounds of this way's seconds over the loop's."""
    low: float
    high: float
    """Quartiles of the ratio."""
    deviation: float
    """Root mean square of the difference to the refits, in standard deviations of the target."""


def bench_removal(
    host: Host,
    *,
    rows: int = 100,
    members: Sequence[int] = (1, 8),
    rounds: int = 5,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda _: None,
) -> list[RemovalRow]:
    """Hold out every row of a table in each way, compare, and time.

    Raises:
        ConfigError: there is nothing to hold out.
        BenchmarkError: scope ``pipeline`` does not agree with the refits.
        retrofit.errors.RetrofitError: the host cannot be patched.
    """
    from sklearn.datasets import load_diabetes

    import retrofit

    if rows < 4 or rounds < 1 or not members or min(members) < 1:
        raise ConfigError("rows must be at least 4, members and rounds at least 1")
    closed = retrofit.patch(host, "closed")
    X, y = load_diabetes(return_X_y=True)
    found = []
    for count in members:
        progress(f"{rows} rows, {count} ensemble members")
        found += _rows_of(host, closed, X[:rows], y[:rows], count, rounds, device)
    return found


def bench_values(
    host: Host,
    *,
    rows: int = 100,
    members: Sequence[int] = (1, 8),
    rounds: int = 3,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda _: None,
) -> list[shapley.ShapleyRow]:
    """Shapley values of columns on the same table, beside shapiq's TabPFN imputer.

    Raises:
        MissingExtraError: shapiq is not installed.
        retrofit.errors.RetrofitError: the host cannot be patched.
    """
    from sklearn.datasets import load_diabetes

    import retrofit

    closed = retrofit.patch(host, "closed")
    X, y = load_diabetes(return_X_y=True)
    found = []
    for count in members:
        progress(f"Shapley values, {count} ensemble members")
        found += shapley.bench_shapley(
            closed, X[:rows], y[:rows], members=count, rounds=rounds, device=device
        )
    return found


def _rows_of(
    host: Host,
    closed: Patched,
    X: np.ndarray,
    y: np.ndarray,
    members: int,
    rounds: int,
    device: str,
) -> list[RemovalRow]:
    import torch

    import retrofit

    settings: dict[str, Any] = {"n_estimators": members, "random_state": 0, "device": device}
    kept = [np.arange(len(y)) != row for row in range(len(y))]

    def loop() -> np.ndarray:
        # Making a regressor copies the model's structure; a loop that is well written does it once.
        regressor = closed.regressor(**settings)
        held = [regressor.fit(X[k], y[k]).predict(X[~k])[0] for k in kept]
        return np.asarray(held)

    def batched() -> np.ndarray:
        # tabpfn's own, on the stock model.
        parts = [X[k] for k in kept], [y[k] for k in kept], [X[~k] for k in kept]
        return np.concatenate(host.regressor(**settings).predict_batched(*parts))

    def removable(scope: Any) -> Callable[[], np.ndarray]:
        def answer() -> np.ndarray:
            held: np.ndarray = (
                retrofit.Removable(closed, X, y, scope, **settings).leave_one_out().held_out
            )
            return held

        return answer

    ways = dict(zip(WAYS, (batched, removable("pipeline"), removable("model")), strict=True))
    reference = loop()
    deviations = {
        way: float(np.sqrt(np.mean(np.square(work() - reference))) / y.std())
        for way, work in ways.items()
    }
    if not deviations["scope pipeline"] <= TOLERANCE:
        raise BenchmarkError(
            f"scope pipeline deviates by {deviations['scope pipeline']:.2g} standard deviations of "
            f"the target from refits; at most {TOLERANCE:g} is rounding"
        )
    seconds = interleaved({LOOP: loop, **ways}, rounds)
    found = []
    for way in WAYS:
        low, middle, high = quartiles(seconds[way], seconds[LOOP])
        found.append(
            RemovalRow(
                rows=len(y),
                columns=X.shape[1],
                members=members,
                way=way,
                device=device_model(device),
                threads=torch.get_num_threads(),
                loop_s=float(np.median(seconds[LOOP])),
                ratio=middle,
                low=low,
                high=high,
                deviation=deviations[way],
            )
        )
    return found


COLUMNS: tuple[Column[RemovalRow], ...] = (
    Column("members", "members"),
    Column("way", "way"),
    Column("loop_s", "refit loop", "{:.2f} s".format),
    Column("ratio", "time / refit loop", "{:.2f}".format),
    Column("quartiles", "quartiles", str, lambda row: f"{row.low:.2f} to {row.high:.2f}"),
    Column("deviation", "deviation from refits", "{:.1e}".format),
)


def write_removal_bench(
    folder: Path,
    host: Host,
    rows: Sequence[RemovalRow],
    command: Sequence[str],
    *,
    built_in: bool,
    values: Sequence[shapley.ShapleyRow] = (),
) -> list[Path]:
    """Write table, page and record.

    Raises:
        ResultsError: the folder cannot be written.
    """
    import pandas as pd

    frame = pd.DataFrame([vars(row) for row in rows])
    first = rows[0]
    page = markdown.page(
        [
            f"# Every row held out, on `{host.name}`",
            markdown.line(notice(host.name)) if built_in else "",
            (
                f"Leave-one-out predictions of {first.rows} rows x {first.columns} columns on "
                f"{first.device}, {first.threads} threads, interleaved with a loop of refits. "
                "`scope model` prepares features once, so it deviates; `scope pipeline` is "
                "what refits would say. Deviations are root mean squares in standard "
                "deviations of the target. "
                f"Made by `{shlex.join(command)}`."
            ),
            markdown.table(*show(COLUMNS, rows)),
            *_of_values(values),
        ]
    )
    record = provenance.record(command, host={"name": host.name, "sha256": host.sha256})
    tables = {"removal": frame}
    if values:
        tables["shapley"] = pd.DataFrame([vars(row) for row in values])
    return write_study(folder, "removal", tables, page, record)


def _of_values(values: Sequence[shapley.ShapleyRow]) -> list[str]:
    if not values:
        return []
    first = values[0]
    return [
        "## Shapley values of columns",
        (
            f"Of {first.rows} rows with {first.columns} columns, exact. shapiq's TabPFN imputer "
            f"refits for each coalition and row; it was timed on {first.part} coalitions of one "
            "row, and all others are reckoned from that. The deviation is that of these answers."
        ),
        markdown.table(*show(shapley.COLUMNS, values)),
    ]
