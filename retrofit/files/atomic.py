"""Writing a file so that a reader, a crash or a full disk finds all of it or nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrofit.errors import RetrofitError


def require_writable(
    path: str | os.PathLike[str], suffix: str, *, overwrite: bool, error: type[RetrofitError]
) -> Path:
    """The path, with the home folder expanded, after a check that a file can go there.

    Raises:
        RetrofitError: of the kind ``error``: another ending, no such folder, or a file or folder of
            that name is there.
    """
    target = Path(path).expanduser()
    if target.suffix != suffix:
        msg = f"{target} is not named as a {suffix} file; choose a name that ends in {suffix}"
        raise error(msg)
    if not target.parent.is_dir():
        raise error(f"{target}: the folder {target.parent} does not exist; create it first")
    if target.is_dir():
        raise error(f"{target} is a folder; choose another name")
    if target.exists() and not overwrite:
        raise error(f"{target} exists; choose another name, or replace it (overwrite)")
    return target


def write_atomic(path: Path, content: bytes, *, error: type[RetrofitError]) -> None:
    """Write beside ``path``, flush to disk, then rename into place.

    Raises:
        RetrofitError: of the kind ``error``: the disk is full or the folder is not writable;
            ``path`` is then the old file or the new one, whole.
    """
    # Opened here, so that the file gets the permissions that the user's umask asks for.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as fault:
        raise error(f"{path} cannot be written ({fault.strerror})") from fault
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
