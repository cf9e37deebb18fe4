"""Is there room for results? Asked before anything is computed; and the files, once there are."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from experiments.errors import ResultsError
from retrofit.files.atomic import probe_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def prepare_out(folder: Path) -> None:
    """Create the folder and write to it once.

    Raises:
        ResultsError: it is a file, or it cannot be made or written.
    """
    with _refusals(folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe_folder(folder)


def write_files(folder: Path, contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write each file by its name below the folder, whole or not at all, and return their paths.

    Raises:
        ResultsError: the folder cannot be made or written.
    """
    paths = [folder / name for name in contents]
    with _refusals(folder):
        for path, content in zip(paths, contents.values(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, content)
    return paths


@contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise ResultsError(
            f"{folder}: cannot be written ({reason}); choose another --out"
        ) from error
