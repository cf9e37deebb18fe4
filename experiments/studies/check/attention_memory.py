"""Peak memory of one long attention: torch's fused kernel beside OAttention's, Linux only.

Each runs in a process of its own, by this module's name with NAME and SOURCES, and its
peak is counted from after the imports and a first small call.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from experiments.errors import BenchmarkError

RECEIVERS, HEADS, WIDTH = 512, 2, 64


@dataclass(frozen=True)
class MemoryRun:
    """One attention to measure, in a process of its own."""

    name: str
    """``torch``, or ``oattention``, which chooses its kernel; ``-absent``: every tenth source is a
    NULL token; ``-nan``: these hold NaN."""
    sources: int
    bound: float | None
    """Of the ratio to torch's memory."""


LONG, SHORTER = 100_000, 60_000
RUNS = (
    MemoryRun("torch", LONG, None),
    MemoryRun("oattention", LONG, 1.2),
    MemoryRun("oattention-absent", LONG, 1.2),
    # Keys and values once more: absent sources are silenced in a copy, ...
    MemoryRun("oattention-nan", LONG, 2.1),
    # ... or left out of one, where it is small enough (``support.MAX_MOVED``).
    MemoryRun("torch", SHORTER, None),
    MemoryRun("oattention-absent", SHORTER, 2.1),
)


@dataclass(frozen=True)
class MemoryFigure:
    """What one attention took."""

    run: str
    sources: int
    kernel: str
    """The kernel that ran."""
    peak_mib: float
    """Peak resident memory above the imports; of 100,000 sources, queries, keys and values are
    98 MiB of it."""
    ratio: float
    """To torch's with as many sources."""
    bound: float | None
    """Of the ratio."""


def measure_memory() -> list[MemoryFigure]:
    """Measure the runs, each beside torch's fused attention on tensors of the same sizes.

    Raises:
        BenchmarkError: this is not Linux, or a run failed.
    """
    if not sys.platform.startswith("linux"):
        raise BenchmarkError("peak memory is measured on Linux only")
    measured = [(run, *_measure(run)) for run in RUNS]
    torchs = {run.sources: peak for run, _, peak in measured if run.name == "torch"}
    return [
        MemoryFigure(run.name, run.sources, kernel, peak, peak / torchs[run.sources], run.bound)
        for run, kernel, peak in measured
    ]


def _measure(run: MemoryRun) -> tuple[str, float]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "experiments.studies.check.attention_memory",
            run.name,
            str(run.sources),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = done.stderr.strip()[-500:]
        raise BenchmarkError(f"memory of {run.name!r}: the process failed: {reason}")
    kernel, peak = done.stdout.split()
    return kernel, float(peak)


def _peak_mib() -> float:
    # The system's own count of this program's pages; getrusage also remembers the parent's.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _run(name: str, sources: int) -> None:
    """Run one attention and print its kernel and its peak."""
    import torch
    import torch.nn.functional as F

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> str:
        if name == "torch":
            F.scaled_dot_product_attention(q, k, v)
            return "torch"
        from retrofit.ops import oattention, record_kernels

        p_BS, p_BJ = torch.ones(1, q.shape[2]), torch.ones(1, k.shape[2])
        if name != "oattention":
            p_BJ[:, ::10] = 0
        if name.endswith("nan"):
            k[:, :, ::10] = torch.nan
        with record_kernels() as counter:
            oattention(q, k, v, p_BS, p_BJ)
        return next(iter(counter))

    def heads(tokens: int) -> torch.Tensor:
        return torch.randn(1, HEADS, tokens, WIDTH)

    with torch.inference_mode():
        torch.manual_seed(0)
        attend(heads(8), heads(64), heads(64))
        before = _peak_mib()
        kernel = attend(heads(RECEIVERS), heads(sources), heads(sources))
        print(kernel, f"{_peak_mib() - before:.1f}")


if __name__ == "__main__":
    _run(sys.argv[1], int(sys.argv[2]))
