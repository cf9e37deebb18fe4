"""Writing a file so that a reader, a crash or a full disk finds all of it or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from typing import TYPE_CHECKING

from retrofit.files.paths import expand_home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from retrofit.errors import RetrofitError

_DRAFT = ".oretro.{token}.tmp"
_DRAFTS = ".oretro.*.tmp*"
# Exclusive, so that neither a planted link nor the leftover of a killed run is written through.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_FLAGS |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def require_writable(
    path: str | os.PathLike[str], suffix: str, *, overwrite: bool, error: type[RetrofitError]
) -> Path:
    """The path, with the home folder expanded, after a check that a file can go there.

    Raises:
        RetrofitError: of the kind ``error``: another ending, no such folder, or a file or folder of
            that name is there.
    """
    target = expand_home(path)
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


def write_atomic(
    path: Path, content: str | bytes, *, error: type[RetrofitError] | None = None
) -> None:
    """Write text as UTF-8, or bytes, beside ``path``, flush to disk, then rename into place.

    Raises:
        OSError: the disk is full or the folder is not writable, of the kind ``error`` if given;
            ``path`` is then the old file or the new one, whole.
    """
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    try:
        fill_atomic(path, lambda draft: _put(draft, data))
    except OSError as fault:
        if error is None:
            raise
        raise error(f"{path} cannot be written ({fault.strerror})") from fault


def fill_atomic(path: Path, fill: Callable[[Path], None]) -> None:
    """Let ``fill`` write an empty file beside ``path``, flush it, then rename it into place.

    Raises:
        OSError: the disk is full or the folder is not writable; ``path`` is then as it was.
    """
    # The suffix is kept: writers that choose a format by suffix see the final one.
    draft = _new_draft(path.parent, path.suffix)
    try:
        fill(draft)
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        # What went wrong is told, not that its draft could not be removed either.
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    _sync_folder(path.parent)


def probe_folder(folder: Path) -> None:
    """Write to a folder once, and leave nothing there.

    Raises:
        OSError: it cannot be written.
    """
    draft = _new_draft(folder)
    try:
        _put(draft, b"\0" * 4096)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def remove_leftovers(folder: Path) -> None:
    """Remove what killed runs left half-written in a folder that nobody else is writing."""
    for path in folder.glob(_DRAFTS):
        with contextlib.suppress(OSError):
            path.unlink()


def _new_draft(folder: Path, suffix: str = "") -> Path:
    path = folder / (_DRAFT.format(token=secrets.token_hex(8)) + suffix)
    # With the permissions that the user's umask asks for.
    os.close(os.open(path, _FLAGS, 0o666))
    return path


def _put(path: Path, data: bytes) -> None:
    with path.open("rb+") as file:
        file.write(data)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and user-space file systems flush files alone.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF):
            raise
    finally:
        os.close(descriptor)
