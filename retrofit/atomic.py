"""Writing a file so that a reader, a crash or a full disk finds all of it or nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def unwritable(path: Path, suffix: str, *, overwrite: bool) -> str | None:
    """Why ``path`` cannot be written, or None: its ending, its folder, or a file that is there."""
    if path.suffix != suffix:
        return f"{path} is not named as a {suffix} file; choose a name that ends in {suffix}"
    if not path.parent.is_dir():
        return f"{path}: the folder {path.parent} does not exist; create it first"
    if path.is_dir():
        return f"{path} is a folder; choose another name"
    if path.exists() and not overwrite:
        return f"{path} exists; remove it, choose another name, or ask to overwrite it"
    return None


def write_atomic(path: Path, content: bytes) -> None:
    """Write beside ``path``, flush to disk, then rename into place.

    Raises:
        OSError: the disk is full or the folder is not writable; ``path`` is then as it was.
    """
    # Opened here, so that the file gets the permissions that the user's umask asks for.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
