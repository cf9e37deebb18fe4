"""What ``oretro bench`` leaves, and how it stands beside what an earlier one left."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pandas as pd

from experiments.errors import ResultsError
from experiments.machine import provenance
from experiments.machine.device import device_model
from experiments.report import markdown
from experiments.report.columns import Cells, Column, show
from experiments.report.remarks import notice
from experiments.studies.bench import forward, memory
from experiments.studies.writer import write_study

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_KEYS = ["shape", "variant", "threads"]
COMPARED: tuple[Column[dict[str, object]], ...] = (
    *(Column[dict[str, object]](name, name) for name in _KEYS),
    Column("ratio_before", "variant / stock before", "{:.2f}".format),
    Column("ratio", "now", "{:.2f}".format),
    Column("gain", "now / before", "{:.2f}".format),
)


def compared(rows: Sequence[forward.BenchRow], earlier: Path) -> list[dict[str, object]]:
    """Ratios of an earlier ``bench.csv`` beside these, at the shapes that both have.

    Raises:
        ResultsError: the file is none, or has no shape, variant and threads in common.
    """
    try:
        before = pd.read_csv(earlier)[[*_KEYS, "ratio"]]
    except (OSError, ValueError, KeyError) as error:
        raise ResultsError(f"{earlier} is no bench.csv of this version ({error})") from None
    both = pd.DataFrame(rows).merge(before, on=_KEYS, suffixes=("", "_before"))
    if both.empty:
        raise ResultsError(f"{earlier} has no shape, variant and threads in common with this run")
    found: list[dict[str, object]] = both.assign(gain=both.ratio / both.ratio_before).to_dict(
        "records"
    )
    return found


def write_bench(
    folder: Path,
    host: str,
    rows: Sequence[forward.BenchRow],
    command: Sequence[str],
    *,
    built_in: bool,
    device: str = "cpu",
    memories: Sequence[memory.MemoryRow] = (),
    comparison: Cells | None = None,
) -> list[Path]:
    """Write ``bench.{csv,md,json}``, with ``memory.csv`` where it was measured.

    Raises:
        ResultsError: the folder cannot be written.
    """
    record = provenance.record(command, device=device_model(device))
    made = (
        f"Made by `{shlex.join(command)}` on {record['device']}. A ratio is the median over the "
        "interleaved rounds; its quartiles beside it."
    )
    parts = [
        f"# One forward pass of {host}, variant beside stock",
        markdown.line(notice(host)) if built_in else "",
        made,
        markdown.table(*show(forward.COLUMNS, rows)),
    ]
    tables = {"bench": pd.DataFrame(rows)}
    if memories:
        tables["memory"] = pd.DataFrame(memories)
        parts += ["## Peak memory of that pass", markdown.table(*show(memory.COLUMNS, memories))]
    if comparison is not None:
        parts += ["## Beside an earlier run", markdown.table(*comparison)]
    return write_study(folder, "bench", tables, markdown.page(parts), record, digits=None)
