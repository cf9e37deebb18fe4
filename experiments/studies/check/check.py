"""``oretro check``: the laws of functions, modules and twins, measured, as tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, get_args

import pandas as pd

from experiments.errors import ConfigError
from experiments.machine import provenance
from experiments.report import markdown
from experiments.report.columns import Cells, Column, show
from experiments.studies.check.attention_memory import (
    HEADS,
    RECEIVERS,
    WIDTH,
    MemoryFigure,
    measure_memory,
)
from experiments.studies.writer import write_study

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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
    rows: list[tuple[Any, ...]] = []
    measured = attrgetter(*COLUMNS[2:-1])
    missing = {}
    for dtype in config.dtypes:
        for kernel in (*KERNELS, "auto"):
            setting = Setting(kernel, getattr(torch, dtype), config.device, config.seed)
            if reason := unavailable(setting):
                missing[f"{dtype} {kernel}"] = reason
                continue
            report(f"{dtype}, {kernel}")
            for figure in measure(setting):
                status = "PASS" if figure.holds else "FAIL"
                rows.append((dtype, kernel, *measured(figure), status))
    memory: list[MemoryFigure] = []
    if config.memory:
        report("peak memory of one long attention")
        memory = measure_memory()
    return CheckResult(config, pd.DataFrame(rows, columns=list(COLUMNS)), missing, memory)


def _short(value: float) -> str:
    return "0" if value == 0 else f"{value:.2e}"


def _memory_status(figure: MemoryFigure) -> str:
    if figure.bound is None:
        return "no bound"
    return "PASS" if figure.ratio <= figure.bound else "FAIL"


# A deviation that is NaN is shown as such: it is a finding, not a missing figure.
FIGURES: tuple[Column[Any], ...] = (
    Column("kind", "kind"),
    Column("law", "law"),
    Column("case", "case"),
    Column("linf", "L-inf", value=lambda x: _short(x.linf)),
    Column("ulps", "ulp", value=lambda x: f"{x.ulps:.2f}"),
    Column("bound", "bound", _short),
    Column("basis", "basis"),
    Column("status", "status"),
)
MEMORY: tuple[Column[MemoryFigure], ...] = (
    Column("run", "run"),
    Column("sources", "sources"),
    Column("kernel", "kernel"),
    Column("peak_mib", "peak MiB", "{:.1f}".format),
    Column("ratio", "ratio to torch", "{:.3f}".format),
    Column("bound", "bound", value=lambda x: "" if x.bound is None else f"{x.bound:g}"),
    Column("status", "status", value=_memory_status),
)


def law_cells(figures: pd.DataFrame) -> Cells:
    """One dtype's overview: the worst figure per law and kernel."""
    kernels = tuple(figures["kernel"].unique())
    rows = [
        (str(law), *(_worst(of_law[of_law["kernel"] == kernel]) for kernel in kernels))
        for law, of_law in figures.groupby("law", sort=False)
    ]
    return Cells(("law", *kernels), rows)


def kind_cells(figures: pd.DataFrame) -> Cells:
    """Functions, modules and twins side by side, with the kernel ``auto``."""
    figures = figures[figures["kernel"] == "auto"]
    rows: list[tuple[str, ...]] = []
    for (dtype, law), of_law in figures.groupby(["dtype", "law"], sort=False):
        kinds = [of_law[of_law["kind"] == kind] for kind in KINDS]
        if not all(found.empty for found in kinds):
            rows.append((str(dtype), str(law), *map(_worst, kinds)))
    return Cells(("dtype", "law", *KINDS), rows)


def figure_cells(figures: pd.DataFrame) -> Cells:
    """Single figures, as their table has them."""
    return show(FIGURES, figures.itertuples(index=False))


def memory_cells(figures: Sequence[MemoryFigure]) -> Cells:
    """The peaks of memory."""
    return show(MEMORY, figures)


def write_check(result: CheckResult, folder: Path, command: Sequence[str]) -> list[Path]:
    """Write ``contracts_DEVICE.{csv,md,json}`` and return their paths.

    Raises:
        ResultsError: the folder cannot be written.
    """
    config, name = result.config, f"contracts_{result.config.device}"
    record = provenance.record(
        command,
        dtypes=list(config.dtypes),
        device=config.device,
        seed=config.seed,
        figures=len(result.figures),
        failed=len(result.failed),
        memory=[asdict(figure) for figure in result.memory],
        unavailable=result.unavailable,
    )
    return write_study(folder, name, {name: result.figures}, page(result), record)


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
        sizes = (
            f"Float32, {RECEIVERS} receivers, {HEADS} heads of {WIDTH}. Keys and values are copied "
            "once where absent sources hold NaN, and where absent sources are left out, which is "
            "done up to 64 MiB of keys and values."
        )
        table = markdown.table(*memory_cells(result.memory))
        parts.append(markdown.section("Peak memory", sizes, table))
    by_dtype = result.figures.groupby("dtype", sort=False)
    kinds = (
        "*Functions* are what every gate is written in, *modules* are built of them, and *twins* "
        "are what hosts run: of every generation a small model with drawn weights is patched, and "
        "each kind of block is run in every way in which the forward pass runs it, by itself. All "
        "three are compared with float64 formulas of their own at presences from 0.1 to 0.9; twins "
        "are measured in float64 and float32."
    )
    side_by_side = markdown.table(*kind_cells(result.figures))
    parts.append(markdown.section("Functions, modules and twins side by side", kinds, side_by_side))
    parts += [
        markdown.section(str(name), markdown.table(*law_cells(rows))) for name, rows in by_dtype
    ]
    for (dtype, kernel), rows in result.figures.groupby(["dtype", "kernel"], sort=False):
        parts += [f"### {dtype}, {kernel}", markdown.table(*figure_cells(rows))]
    return markdown.page(parts)


def _worst(figures: pd.DataFrame) -> str:
    if figures.empty:
        return ""
    bad = figures[figures["status"] != "PASS"]
    row = (bad if len(bad) else figures).sort_values("linf", na_position="last").iloc[-1]
    text = _short(row["linf"])
    if row["linf"] != 0:
        text += f" ({row['ulps']:.2g})"
    return text if row["status"] == "PASS" else f"FAIL {text}"
