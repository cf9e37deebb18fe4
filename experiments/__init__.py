"""What is measured with oretro: data, sweeps, statistics, tables and the command line.

In Python, ``evaluate`` is the main job and ``read_results`` reads what it left. They are imported
when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.sweep.evaluate import evaluate, read_results

__all__ = ["evaluate", "read_results"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'experiments' has no attribute {name!r}")
    return getattr(import_module("experiments.sweep.evaluate"), name)


def __dir__() -> list[str]:
    return __all__
