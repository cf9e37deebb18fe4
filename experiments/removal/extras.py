"""Packages that removal needs beside oretro's own, and the sentence for one that is absent."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from experiments.errors import MissingExtraError

if TYPE_CHECKING:
    from types import ModuleType


def optional(module: str, extra: str) -> ModuleType:
    """Import a module of an optional package.

    Raises:
        MissingExtraError: it is not installed, or cannot be used.
    """
    try:
        return import_module(module)
    except Exception as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{package} cannot be used here ({type(error).__name__}: {error}); "
            f"pip install 'oretro[{extra}]'"
        ) from error
