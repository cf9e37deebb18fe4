"""One writer per results folder; a second one is told who holds it."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.errors import FolderInUseError, ResultsError
from experiments.io.json_file import UnreadableJsonError, json_text, read_object
from experiments.io.text import shortened, visible
from retrofit.files.atomic import write_atomic

try:
    import fcntl
except ImportError:  # Windows, where an open file can be locked by its library alone
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK_FILE = ".oretro.lock"
HOLDER_FILE = ".oretro.holder.json"
GRACE_SECONDS = 2.0
"""A killed run can have a child between fork and exec that holds the lock a moment longer."""
_POLL_SECONDS = 0.05
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold ``folder`` for this process; the system frees it when the process ends, however it ends.

    Where the file system has no locks, the holder's record stands in for one: it counts as long as
    its process lives.

    Raises:
        FolderInUseError: another process holds it; names its pid and machine.
        ResultsError: the lock's file is a link, or cannot be made.
    """
    holder = folder / HOLDER_FILE
    with contextlib.ExitStack() as held:
        if not _lock(folder, held):
            _refuse_living_holder(folder)
        try:
            write_atomic(holder, json_text(_myself()))
        except OSError as error:
            raise ResultsError(
                f"{folder}: cannot be written ({error.strerror}); choose another --out"
            ) from error
        try:
            yield
        finally:
            # A file system that has become read-only must not hide what the block has to say.
            with contextlib.suppress(OSError):
                holder.unlink()


def _lock(folder: Path, held: contextlib.ExitStack) -> bool:
    """Lock the folder's file until ``held`` closes; False where the file system has no locks."""
    path = folder / LOCK_FILE
    if fcntl is None:
        from filelock import FileLock, Timeout

        try:
            held.enter_context(FileLock(path).acquire(timeout=GRACE_SECONDS))
        except Timeout:
            raise _in_use(folder) from None
        return True
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        raise ResultsError(
            f"{path}: cannot be opened for locking ({error.strerror}); remove it if it is a link, "
            "or choose another --out"
        ) from None
    held.callback(os.close, descriptor)
    deadline = time.monotonic() + GRACE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _HELD:
                return False
            if time.monotonic() > deadline:
                raise _in_use(folder) from None
            time.sleep(_POLL_SECONDS)
        else:
            return True


def _refuse_living_holder(folder: Path) -> None:
    """Without locks: refuse a folder whose holder lives, or may live on another machine."""
    path = folder / HOLDER_FILE
    facts = _holder(folder)
    if not facts:
        return
    if facts["machine"] != socket.gethostname():
        raise FolderInUseError(
            f"{folder} is on a file system without locks, and {_named(facts)} may still be writing "
            f"there; if it has ended, delete {path}, or choose another --out"
        )
    if _born(facts["pid"]) == facts["born"] is not None:
        raise _in_use(folder)


def _in_use(folder: Path) -> FolderInUseError:
    facts = _holder(folder)
    who = _named(facts) if facts else "another process"
    return FolderInUseError(
        f"{folder} is being written by {who}; wait for it, stop it, or choose another --out"
    )


def _myself() -> dict[str, Any]:
    pid = os.getpid()
    return {"pid": pid, "machine": socket.gethostname(), "born": _born(pid)}


def _holder(folder: Path) -> dict[str, Any]:
    """What the holder wrote of itself; empty where there is none, or none that can be read."""
    try:
        facts = read_object(folder / HOLDER_FILE)
    except (FileNotFoundError, UnreadableJsonError):
        return {}
    pid, machine = facts.get("pid"), facts.get("machine")
    if not isinstance(pid, int) or not isinstance(machine, str):
        return {}
    return {"pid": pid, "machine": machine, "born": facts.get("born")}


def _named(facts: dict[str, Any]) -> str:
    return f"process {facts['pid']} on {shortened(visible(facts['machine']), 80)}"


def _born(pid: int) -> str | None:
    """When a process of this machine was started, in the system's own count; None if it is none.

    Without ``/proc`` only whether it lives can be told.
    """
    with contextlib.suppress(OSError):
        # The command's name, in brackets, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[19]
    try:
        os.kill(pid, 0)
    except PermissionError:
        return "alive"
    except (OSError, OverflowError):
        return None
    return "alive"
