"""Writing a file so that a reader, a crash or a full disk finds the old one or the new one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_atomic(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8 beside ``path``, flush it to disk, then rename it into place.

    Raises:
        OSError: the disk is full or the folder is not writable; ``path`` is then as it was.
    """
    write_atomic_bytes(path, text.encode("utf-8", "surrogatepass"))


def write_atomic_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` likewise.

    Raises:
        OSError: the disk is full or the folder is not writable; ``path`` is then as it was.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
