"""Atomic writes of files that a library fills by path."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def fill_atomic(path: Path, fill: Callable[[Path], None]) -> None:
    """Let ``fill`` write a file beside ``path``, flush it to disk, then rename it into place.

    Raises:
        OSError: the disk is full or the folder is not writable; ``path`` is then as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix is kept: writers that choose a format by suffix see the final one.
    draft = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        fill(draft)
        with draft.open("rb+") as handle:
            os.fsync(handle.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
