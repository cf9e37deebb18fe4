"""Peak memory of one long attention: torch's fused kernel beside OAttention's, Linux only.

Each kernel runs in a process of its own, ``python -m experiments.attention_memory KERNEL``, and
its peak is counted from after the imports and a first small call.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from experiments.errors import BenchmarkError

RECEIVERS, SOURCES, HEADS, WIDTH = 512, 100_000, 2, 64
RUNS = ("torch", "oattention", "oattention-absent", "oattention-nan")
"""``oattention`` chooses its kernel; ``-absent``: every tenth source is a NULL token; ``-nan``:
these hold NaN, so that keys and values must be copied to silence them."""
BOUND = 1.2


@dataclass(frozen=True)
class MemoryFigure:
    """What one attention took."""

    run: str
    kernel: str
    """The kernel that ran."""
    peak_mib: float
    """Peak resident memory above the imports; queries, keys and values are 98 MiB of it."""
    ratio: float
    """To torch's."""
    bound: float | None
    """Of the ratio; none where keys and values must be copied."""


def measure_memory(runs: tuple[str, ...] = RUNS) -> list[MemoryFigure]:
    """Measure the runs, each beside torch's fused attention on the same tensors.

    Raises:
        BenchmarkError: this is not Linux, or a run failed.
    """
    if not sys.platform.startswith("linux"):
        raise BenchmarkError("peak memory is measured on Linux only")
    _, torchs = _measure("torch")
    figures = []
    for run in runs:
        kernel, peak = ("torch", torchs) if run == "torch" else _measure(run)
        bound = None if run.endswith("nan") else BOUND
        figures.append(MemoryFigure(run, kernel, peak, peak / torchs, bound))
    return figures


def _measure(run: str) -> tuple[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "experiments.attention_memory", run],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchmarkError(f"memory of {run!r}: the process failed: {done.stderr.strip()[-500:]}")
    kernel, peak = done.stdout.split()
    return kernel, float(peak)


def _peak_mib() -> float:
    # The system's own count of this program's pages; getrusage also remembers the parent's.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _run(name: str) -> None:
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
        kernel = attend(heads(RECEIVERS), heads(SOURCES), heads(SOURCES))
        print(kernel, f"{_peak_mib() - before:.1f}")


if __name__ == "__main__":
    _run(sys.argv[1])
