"""Is there room for results? Asked before anything is computed; and the files, once there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.errors import ResultsError
from retrofit.files.atomic import probe_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def prepare_out(folder: Path) -> None:
    """Create the folder and write to it once.

    Raises:
        ResultsError: it is a file, or it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe_folder(folder)
    except OSError as error:
        reason = error.strerror or error
        raise ResultsError(
            f"{folder}: cannot be written ({reason}); choose another --out"
        ) from None


def write_files(folder: Path, contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write each file by its name, whole or not at all, and return their paths.

    Raises:
        ResultsError: the folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_atomic(folder / name, content)
    except OSError as error:
        raise ResultsError(f"{folder}: cannot be written: {error}") from None
    return [folder / name for name in contents]
