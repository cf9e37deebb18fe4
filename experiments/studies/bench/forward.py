"""What a patched host costs beside stock: paired forward passes, as ratios with their spread.

Before any clock runs, the host with presence forced to 1 must
equal stock: a fast wrong answer is no answer.

Shapes: R rows, B batch (ensemble members), C columns, N train rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd

from experiments.errors import BenchmarkError
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

    from torch import nn

    from retrofit import Host
    from retrofit.words import Variant

WIRING_TOLERANCE = 1e-4
"""Largest relative deviation of the logits that float32 rounding explains."""


@dataclass(frozen=True)
class BenchShape:
    """The size of one forward pass."""

    train: int
    test: int
    columns: int
    members: int

    @property
    def name(self) -> str:
        """For example ``300+100 x 10, 4 members``."""
        return f"{self.train}+{self.test} x {self.columns}, {self.members} members"


SHAPES = (
    BenchShape(70, 30, 5, 4),
    BenchShape(300, 100, 10, 4),
    BenchShape(300, 100, 40, 4),
    BenchShape(1500, 500, 8, 1),
)


@dataclass(frozen=True)
class BenchRow:
    """Time of one variant at one shape beside stock's in the same rounds."""

    shape: str
    variant: str
    stock_s: float
    """Median seconds of stock's forward pass."""
    variant_s: float
    """Median seconds of the variant's."""
    ratio: float
    """Median over the rounds of variant / stock."""
    ratio_low: float
    """First quartile of that ratio."""
    ratio_high: float
    """Third quartile of that ratio."""
    rounds: int
    kernels: str
    """Attention kernels that one forward pass used, with their counts."""


def bench(
    host: Host,
    variants: Sequence[str],
    *,
    shapes: Sequence[BenchShape] = SHAPES,
    rounds: int = 15,
    device: str = "cpu",
) -> list[BenchRow]:
    """Time forward passes of stock and of each variant, interleaved.

    Raises:
        BenchmarkError: a variant with presence 1 does not equal stock at some shape.
        retrofit.errors.RetrofitError: the host cannot be patched.
    """
    import retrofit

    models = {"stock": _model(host, device)}
    wired = {}
    for variant in variants:
        # The library refuses an unknown name with the list of those it has.
        chosen = cast("Variant", variant)
        models[variant] = _model(retrofit.patch(host, chosen), device)
        wired[variant] = _model(retrofit.patch(host, chosen, presence="one", eps_den=0.0), device)
    rows = []
    for shape in shapes:
        work = {name: _forward(model, shape, device) for name, model in models.items()}
        for variant, model in wired.items():
            _require_equal(work["stock"], _forward(model, shape, device), variant, shape)
        kernels = {}
        for name, run in work.items():
            with retrofit.ops.record_kernels() as counted:
                run()
            kernels[name] = ", ".join(f"{count} {kernel}" for kernel, count in counted.items())
        seconds = interleaved(work, rounds)
        for variant in variants:
            low, middle, high = quartiles(seconds[variant], seconds["stock"])
            rows.append(
                BenchRow(
                    shape=shape.name,
                    variant=variant,
                    stock_s=float(np.median(seconds["stock"])),
                    variant_s=float(np.median(seconds[variant])),
                    ratio=middle,
                    ratio_low=low,
                    ratio_high=high,
                    rounds=rounds,
                    kernels=kernels[variant],
                )
            )
    return rows


COLUMNS: tuple[Column[BenchRow], ...] = (
    Column("shape", "shape"),
    Column("variant", "variant"),
    Column("stock_s", "stock", lambda seconds: f"{seconds * 1e3:.1f} ms"),
    Column("ratio", "variant / stock", "{:.2f}".format),
    Column("", "quartiles", value=lambda x: f"{x.ratio_low:.2f} to {x.ratio_high:.2f}"),
    Column("kernels", "kernels"),
)


def write_bench(
    folder: Path,
    host: str,
    rows: Sequence[BenchRow],
    command: Sequence[str],
    *,
    built_in: bool,
    device: str = "cpu",
) -> list[Path]:
    """Write ``bench.{csv,md,json}`` and return their paths.

    Raises:
        ResultsError: the folder cannot be written.
    """
    record = provenance.record(command, device=device_model(device))
    threads = record["machine"]["torch_threads"]
    made = (
        f"Made by `{' '.join(command)}` on {record['device']}, {threads} threads, "
        f"{rows[0].rounds} rounds. A ratio is the median over the rounds; its quartiles beside it."
    )
    title = f"# One forward pass of {host}, variant beside stock"
    table = markdown.table(*show(COLUMNS, rows))
    whose = markdown.line(notice(host)) if built_in else ""
    page = markdown.page([title, whose, made, table])
    return write_study(folder, "bench", {"bench": pd.DataFrame(rows)}, page, record, digits=None)


def _model(host: Host, device: str) -> nn.Module:
    # The copy that a regressor would run, so that nothing here can reach the host.
    model: nn.Module = host.regressor().model_path.model
    return model.eval().to(device)


def _forward(model: nn.Module, shape: BenchShape, device: str) -> Callable[[], np.ndarray]:
    """One forward pass and the way of its result to the CPU, which waits for the device."""
    import torch

    from retrofit.hosts.registry import generation_of_model

    call = generation_of_model(model).run
    generator = torch.Generator().manual_seed(shape.train + shape.columns)
    x_RBC = torch.randn(shape.train + shape.test, shape.members, shape.columns, generator=generator)
    y_NB = torch.randn(shape.train, shape.members, generator=generator)
    x_RBC, y_NB = x_RBC.to(device), y_NB.to(device)

    def run() -> np.ndarray:
        with torch.inference_mode():
            return np.asarray(call(model, x_RBC, y_NB).cpu())

    return run


def _require_equal(
    stock: Callable[[], np.ndarray],
    wired: Callable[[], np.ndarray],
    variant: str,
    shape: BenchShape,
) -> None:
    expected, got = stock(), wired()
    deviation = float(np.abs(got - expected).max() / np.abs(expected).max())
    if not deviation <= WIRING_TOLERANCE:
        raise BenchmarkError(
            f"{variant} with presence 1 deviates from stock by {deviation:.1e} of the largest "
            f"logit at {shape.name}, more than float32 rounding explains; its time means nothing"
        )
