"""What picks the kernels that a CPU computes with, and so the last digits of a score."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_CPU_ISA_HINTS",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_DEFAULT_FPMATH_MODE",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_CBWR",
    "OPENBLAS_CORETYPE",
    "BLIS_ARCH_TYPE",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "CUBLAS_WORKSPACE_CONFIG",
)
"""Settings of torch and of the libraries under it that choose among kernels."""
_PROBES = (
    "_is_avx2_supported",
    "_is_avx512_supported",
    "_is_avx512_bf16_supported",
    "_is_vnni_supported",
    "_is_amx_tile_supported",
    "_is_amx_fp16_supported",
)
_ONEDNN_PROBES = ("_is_mkldnn_bf16_supported", "_is_mkldnn_fp16_supported")


@cache
def kernel_choice() -> tuple[tuple[str, str], ...]:
    """Facts by name: torch's instruction set, oneDNN's, the processor's, BLAS, and settings.

    Rows made under different ones are not bit for bit comparable. The libraries read their settings
    when they are first used, so this process answers once.
    """
    import scipy.linalg  # noqa: F401  (its BLAS is known once it is loaded)
    import torch
    from threadpoolctl import threadpool_info

    # All of these are private names of torch: one that is gone counts as unknown.
    processor = {name: _ask(torch.cpu, name) for name in _PROBES}
    onednn = {name: _ask(torch.ops.mkldnn, name) for name in _ONEDNN_PROBES}
    blas = {
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}".strip()
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    set_here = [f"{name}={os.environ[name]}" for name in _VARIABLES if os.environ.get(name)]
    return (
        ("torch", torch.backends.cpu.get_cpu_capability()),
        ("oneDNN", _listed(onednn) if torch.backends.mkldnn.is_available() else "absent"),  # type: ignore[no-untyped-call]
        ("processor", f"{processor_name()}: {_listed(processor)}"),
        ("BLAS", ", ".join(sorted(blas)) or "unknown"),
        ("settings", " ".join(set_here) or "none"),
    )


def processor_name() -> str:
    """What the processor calls itself; sizes of caches, which kernels go by, come with it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _ask(home: object, name: str) -> bool | None:
    try:
        return bool(getattr(home, name)())
    except (AttributeError, RuntimeError):
        return None


def _listed(answers: dict[str, bool | None]) -> str:
    """What is there, by its short name."""
    short = {
        name.removeprefix("_is_").removeprefix("mkldnn_").removesuffix("_supported"): answer
        for name, answer in answers.items()
    }
    there = [
        name if answer else f"{name}?" for name, answer in short.items() if answer is not False
    ]
    return " ".join(there) or "none of those asked for"
