"""``oretro check``: the laws of functions, modules and twins, measured, as tables."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import pandas as pd

from experiments.errors import ConfigError
from experiments.io.writable import write_files
from experiments.machine import provenance
from experiments.report import markdown
from experiments.studies.check.attention_memory import (
    HEADS,
    RECEIVERS,
    WIDTH,
    MemoryFigure,
    measure_memory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

Dtype = Literal["float64", "float32", "bfloat16", "float16"]
Device = Literal["cpu", "cuda"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
KINDS = ("function", "module", "twin")
COLUMNS = ("dtype", "kernel", "kind", "law", "case", "linf", "ulps", "bound", "basis", "status")


@dataclass(frozen=True)
class CheckConfig:
    """What to check."""

    dtypes: tuple[Dtype, ...] = DTYPES
    device: Device = "cpu"
    seed: int = 0
    memory: bool = False
    """Whether to measure the peak memory of one long attention as well."""


@dataclass(frozen=True)
class CheckResult:
    """Every figure, and the kernels that do not exist here."""

    config: CheckConfig
    figures: pd.DataFrame
    """``COLUMNS``, one row per figure; ``status`` is PASS or FAIL."""
    unavailable: dict[str, str]
    """Reason by ``dtype kernel``."""
    memory: list[MemoryFigure] = field(default_factory=list)
    """Peak memory of one long attention, where it was asked for."""

    @property
    def failed(self) -> pd.DataFrame:
        """The rows that broke their bound."""
        failed: pd.DataFrame = self.figures[self.figures["status"] != "PASS"]
        return failed

    @property
    def ok(self) -> bool:
        """Whether every bound was kept."""
        return self.failed.empty and not any(_memory_status(x) == "FAIL" for x in self.memory)


def run_check(config: CheckConfig, report: Callable[[str], None] = lambda _: None) -> CheckResult:
    """Measure every law for every dtype and kernel; ``report`` is told what comes next.

    Raises:
        ConfigError: there is no such device here.
    """
    import torch

    from retrofit.contracts import KERNELS, Setting, measure, unavailable

    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device 'cuda': torch finds no CUDA device here; use --device cpu")
    rows: list[dict[str, Any]] = []
    missing = {}
    for dtype in config.dtypes:
        for kernel in (*KERNELS, "auto"):
            setting = Setting(kernel, getattr(torch, dtype), config.device, config.seed)
            if reason := unavailable(setting):
                missing[f"{dtype} {kernel}"] = reason
                continue
            report(f"{dtype}, {kernel}")
            for figure in measure(setting):
                rows.append(
                    {
                        "dtype": dtype,
                        "kernel": kernel,
                        "kind": figure.kind,
                        "law": figure.law,
                        "case": figure.case,
                        "linf": figure.linf,
                        "ulps": figure.ulps,
                        "bound": figure.bound,
                        "basis": figure.basis,
                        "status": "PASS" if figure.holds else "FAIL",
                    }
                )
    memory: list[MemoryFigure] = []
    if config.memory:
        report("peak memory of one long attention")
        memory = measure_memory()
    return CheckResult(config, pd.DataFrame(rows, columns=list(COLUMNS)), missing, memory)


def law_rows(figures: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of one dtype's overview: the worst figure per law and kernel."""
    kernels = list(figures["kernel"].unique())
    rows = []
    for law, of_law in figures.groupby("law", sort=False):
        cells = [str(law)]
        for kernel in kernels:
            cells.append(_worst(of_law[of_law["kernel"] == kernel]))
        rows.append(tuple(cells))
    return ("law", *kernels), rows


def kind_rows(figures: pd.DataFrame) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of functions, modules and twins side by side, with the kernel ``auto``."""
    figures = figures[figures["kernel"] == "auto"]
    rows: list[tuple[str, ...]] = []
    for (dtype, law), of_law in figures.groupby(["dtype", "law"], sort=False):
        kinds = [of_law[of_law["kind"] == kind] for kind in KINDS]
        if not all(found.empty for found in kinds):
            rows.append((str(dtype), str(law), *map(_worst, kinds)))
    return ("dtype", "law", *KINDS), rows


def figure_rows(figures: Iterable[Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of single figures."""
    header: tuple[str, ...] = ("kind", "law", "case", "L-inf", "ulp", "bound", "basis", "status")
    rows: list[tuple[str, ...]] = [
        (
            *(x.kind, x.law, x.case, _short(x.linf), f"{x.ulps:.2f}"),
            *(_short(x.bound), x.basis, x.status),
        )
        for x in figures
    ]
    return header, rows


def memory_rows(figures: list[MemoryFigure]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of the memory figures."""
    rows: list[tuple[str, ...]] = [
        (
            *(x.run, str(x.sources), x.kernel, f"{x.peak_mib:.1f}", f"{x.ratio:.3f}"),
            *("" if x.bound is None else f"{x.bound:g}", _memory_status(x)),
        )
        for x in figures
    ]
    return ("run", "sources", "kernel", "peak MiB", "ratio to torch", "bound", "status"), rows


def _memory_status(figure: MemoryFigure) -> str:
    if figure.bound is None:
        return "no bound"
    return "PASS" if figure.ratio <= figure.bound else "FAIL"


def write_check(result: CheckResult, folder: Path, command: Sequence[str]) -> list[Path]:
    """Write ``contracts_DEVICE.{csv,md,json}`` and return their paths.

    Raises:
        ResultsError: the folder cannot be written.
    """
    device = result.config.device
    buffer = io.StringIO()
    result.figures.to_csv(buffer, index=False, lineterminator="\n", float_format="%.6g")
    record = {
        "schema": 1,
        "command": list(command),
        "dtypes": list(result.config.dtypes),
        "device": device,
        "seed": result.config.seed,
        "figures": len(result.figures),
        "failed": len(result.failed),
        "memory": [asdict(figure) for figure in result.memory],
        "unavailable": result.unavailable,
        "code": provenance.git_state(),
        "versions": provenance.versions(),
        "machine": provenance.machine(),
        "finished": provenance.now(),
    }
    texts = {
        f"contracts_{device}.csv": buffer.getvalue(),
        f"contracts_{device}.md": page(result),
        f"contracts_{device}.json": json.dumps(record, indent=1) + "\n",
    }
    return write_files(folder, texts)


def page(result: CheckResult) -> str:
    """The figures as markdown: an overview per dtype, then every figure."""
    count, failed = len(result.figures), len(result.failed)
    parts = [
        f"# Laws of operators and twins on {result.config.device}",
        (
            f"{count} figures, {failed} beyond their bound. A cell is the largest deviation seen "
            "(L-inf), in brackets in units in the last place of the largest value compared. "
            "Every figure is listed below with its bound and where that comes from."
        ),
        (
            "The kernel `auto` stands for what does not depend on an attention kernel. On a CPU "
            "absent sources are left out before a kernel runs, so that inserting them changes no "
            "bit, whichever kernel it is. Beside a batch element that has more sources (*ragged "
            "batch*), on CUDA and under `torch.compile` their weight of 0 alone silences them, and "
            "sums round as in torch's own attention with the source masked (*control*). Scores "
            "near 1e4 are themselves rounded to 1e-3 in float32, and the weights with them "
            "(*extreme scores*)."
        ),
    ]
    if result.unavailable:
        lines = [f"- {name}: {reason}" for name, reason in result.unavailable.items()]
        parts.append("Kernels that do not exist here:\n\n" + "\n".join(lines))
    if result.memory:
        parts.append(
            f"## Peak memory\n\nFloat32, {RECEIVERS} receivers, {HEADS} heads of {WIDTH}. Keys and "
            "values are copied once where absent sources hold NaN, and where absent sources are "
            "left out, which is done up to 64 MiB of keys and values.\n\n"
            f"{markdown.table(*memory_rows(result.memory))}"
        )
    by_dtype = result.figures.groupby("dtype", sort=False)
    parts.append(
        "## Functions, modules and twins side by side\n\n"
        "*Functions* are what every gate is written in, *modules* are built of them, and *twins* "
        "are what hosts run: of every generation a small model with drawn weights is patched, and "
        "each kind of block is run in every way in which the forward pass runs it, by itself. All "
        "three are compared with float64 formulas of their own at presences from 0.1 to 0.9; twins "
        "are measured in float64 and float32.\n\n"
        f"{markdown.table(*kind_rows(result.figures))}"
    )
    parts += [f"## {name}\n\n{markdown.table(*law_rows(rows))}" for name, rows in by_dtype]
    for (dtype, kernel), rows in result.figures.groupby(["dtype", "kernel"], sort=False):
        cells = figure_rows(rows.itertuples(index=False))
        parts.append(f"### {dtype}, {kernel}\n\n{markdown.table(*cells)}")
    return "\n\n".join(parts) + "\n"


def _worst(figures: pd.DataFrame) -> str:
    if figures.empty:
        return ""
    bad = figures[figures["status"] != "PASS"]
    row = (bad if len(bad) else figures).sort_values("linf", na_position="last").iloc[-1]
    text = _short(row["linf"])
    if row["linf"] != 0:
        text += f" ({row['ulps']:.2g})"
    return text if row["status"] == "PASS" else f"FAIL {text}"


def _short(value: float) -> str:
    return "0" if value == 0 else f"{value:.2e}"
