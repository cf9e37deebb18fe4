"""Is there room for results? Asked before anything is computed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from experiments.errors import ResultsError

if TYPE_CHECKING:
    from pathlib import Path


def prepare_out(folder: Path) -> None:
    """Create the folder and write to it once.

    Raises:
        ResultsError: it is a file, or it cannot be made or written.
    """
    probe = folder / f".oretro.probe.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"\0" * 4096)
        probe.unlink()
    except OSError as error:
        reason = error.strerror or error
        raise ResultsError(
            f"{folder}: cannot be written ({reason}); choose another --out"
        ) from None
