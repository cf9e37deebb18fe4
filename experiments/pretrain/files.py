"""Atomic writes: a reader sees the old file or the new one, never a part."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a file beside ``path``, force it to disk, then rename it to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix is kept: writers that choose a format by suffix see the final one.
    draft = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(draft)
        with draft.open("rb+") as handle:
            os.fsync(handle.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_text_atomically(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8") and None)
