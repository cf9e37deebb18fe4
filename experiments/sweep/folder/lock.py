"""One writer per results folder; a second one is told who holds it."""

from __future__ import annotations

import json
import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from experiments.errors import FolderInUseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK_FILE = ".oretro.lock"
HOLDER_FILE = ".oretro.holder.json"
GRACE_SECONDS = 2.0
"""A killed run can have a child between fork and exec that holds the lock a moment longer."""


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold ``folder`` for this process; the system frees it when the process ends, however it ends.

    Raises:
        FolderInUseError: another process holds it; names its pid and machine.
    """
    holder = folder / HOLDER_FILE
    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=GRACE_SECONDS)
    except Timeout:
        raise FolderInUseError(
            f"{folder} is being written by {_describe(holder)}; wait for it, stop it, "
            "or choose another --out"
        ) from None
    try:
        holder.write_text(json.dumps({"pid": os.getpid(), "machine": socket.gethostname()}))
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _describe(holder: Path) -> str:
    try:
        facts = json.loads(holder.read_text())
        return f"process {facts['pid']} on {facts['machine']}"
    except (OSError, ValueError, KeyError):
        return "another process"
