"""Peak memory of a forward pass, stock's beside a variant's, each in a process of its own; Linux.

Counted from after the host was loaded, patched, and run on a few rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from experiments.errors import BenchmarkError
from experiments.report.columns import Column
from experiments.studies.bench.forward import BenchShape, forward, model_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrofit import Host
    from retrofit.words import Variant

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class MemoryRow:
    """What one forward pass takes, beside stock's at the same shape."""

    shape: str
    variant: str
    stock_mib: float
    """Peak of stock's process during its pass."""
    ratio: float
    """The variant's peak to it."""
    stock_added_mib: float
    """What stock's pass adds to what was resident before it."""
    added_ratio: float


def measure(
    host: str, drawn: bool, variants: Sequence[str], shapes: Sequence[BenchShape], threads: int
) -> list[MemoryRow]:
    """A row per shape and variant.

    Raises:
        BenchmarkError: this is not Linux, or a process failed.
    """
    if not (_STATUS.exists() and _RESET.exists()):
        raise BenchmarkError("peak memory is measured on Linux only; leave --memory out")
    rows = []
    for shape in shapes:
        of = {
            variant: _measured(host, drawn, variant, shape, threads)
            for variant in ("stock", *variants)
        }
        peak, added = of["stock"]
        for variant in variants:
            own_peak, own_added = of[variant]
            rows.append(
                MemoryRow(shape.name, variant, peak, own_peak / peak, added, own_added / added)
            )
    return rows


def _measured(
    host: str, drawn: bool, variant: str, shape: BenchShape, threads: int
) -> tuple[float, float]:
    asked = json.dumps([host, drawn, variant, asdict(shape), threads])
    done = subprocess.run(
        [sys.executable, "-m", __name__, asked], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchmarkError(f"memory of '{variant}': {done.stderr.strip()[-500:]}")
    peak, added = map(float, done.stdout.split()[-2:])
    return peak, added


def _mib(field: str) -> float:
    return int(_STATUS.read_text("ascii").partition(f"{field}:")[2].split()[0]) / 1024


def _run(name: str, drawn: bool, variant: str, size: dict[str, Any], threads: int) -> None:
    import torch

    import retrofit

    torch.set_num_threads(threads)
    host = load(name, drawn=drawn)
    # Stock's process patches as well, so that both have allocated alike before the pass.
    patched = retrofit.patch(host, cast("Variant", "full" if variant == "stock" else variant))
    host = host if variant == "stock" else patched
    model, shape = model_of(host, "cpu"), BenchShape(**size)
    forward(model, BenchShape(8, 4, shape.columns, 1), "cpu")()
    run = forward(model, shape, "cpu")
    _RESET.write_text("5")
    before = _mib("VmRSS")
    run()
    peak = _mib("VmHWM")
    print(peak, peak - before)


def load(name: str, *, drawn: bool) -> Host:
    """A host by name, or one of that generation whose weights are drawn."""
    import retrofit
    from experiments.studies.bench.drawn import drawn_host

    return drawn_host(name) if drawn else retrofit.load_host(name)


COLUMNS: tuple[Column[MemoryRow], ...] = (
    Column("shape", "shape"),
    Column("variant", "variant"),
    Column("stock_mib", "stock, peak", "{:.0f} MiB".format),
    Column("ratio", "variant / stock", "{:.3f}".format),
    Column("stock_added_mib", "stock's pass adds", "{:.0f} MiB".format),
    Column("added_ratio", "variant adds / stock adds", "{:.2f}".format),
)

if __name__ == "__main__":
    _run(*json.loads(sys.argv[1]))
