"""Files and locks of a results folder where the file system, or somebody on it, is unkind."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sweeping import rows, sweep

from experiments.errors import FolderInUseError, InterruptedWriteError, ResultsError
from experiments.io.writable import prepare_out
from experiments.sweep.config import SweepConfig
from experiments.sweep.folder import lock
from experiments.sweep.folder.lock import HOLDER_FILE, LOCK_FILE, folder_lock
from retrofit.files import atomic
from retrofit.files.atomic import fill_atomic, write_atomic

NO_LOCKS = [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO]


def test_file_is_flushed_before_the_rename_and_its_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cases.csv"
    flushed = []

    def fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        flushed.append(("folder" if is_folder else "file", path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomic(path, "new")
    assert flushed == [("file", False), ("folder", True)]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EIO], ids=errno.errorcode.get)
def test_file_system_that_flushes_files_alone_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fsync)
    if code == errno.EIO:
        with pytest.raises(OSError, match="Input/output error"):
            write_atomic(tmp_path / "cases.csv", "new")
    else:
        write_atomic(tmp_path / "cases.csv", "new")
        assert (tmp_path / "cases.csv").read_text() == "new"


@pytest.mark.parametrize("name", [HOLDER_FILE, "run.json", "cases/left-1-oa.json"])
def test_planted_pipe_is_not_waited_for(toy_config: SweepConfig, tmp_path: Path, name: str) -> None:
    sweep(toy_config, tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with folder_lock(tmp_path), pytest.raises(FolderInUseError), folder_lock(tmp_path):
        pass
    outcome = sweep(toy_config, tmp_path)
    assert outcome.computed == (1 if name.startswith("cases") else 0)


def test_writing_never_goes_through_a_planted_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    for name in (HOLDER_FILE, "cases.csv", ".oretro.0000.tmp.csv", ".oretro.0000.tmp"):
        (folder / name).symlink_to(victim)
    with monkeypatch.context() as patch:
        patch.setattr(atomic.secrets, "token_hex", lambda size: "0000")
        with pytest.raises(FileExistsError):
            write_atomic(folder / "cases.csv", "ours")
        with pytest.raises(ResultsError, match="cannot be written"):
            prepare_out(folder)
    write_atomic(folder / "cases.csv", "ours")
    assert (folder / "cases.csv").read_text() == "ours"
    with folder_lock(folder):
        assert json.loads((folder / HOLDER_FILE).read_text())["pid"] == os.getpid()
    assert victim.read_text() == "mine"


def test_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / LOCK_FILE).symlink_to(victim)
    with pytest.raises(ResultsError, match="remove it if it is a link"), folder_lock(tmp_path):
        pass
    assert not victim.exists()


def test_what_killed_runs_left_is_gone_after_the_next_start(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    def killed(draft: Path) -> None:
        draft.write_bytes(b"half")
        left.append(draft.read_bytes())
        draft.rename(draft.parent / ".oretro.dead.tmp.json")
        raise KeyboardInterrupt

    left: list[bytes] = []
    for name in ("", "cases", "noise", "figures"):
        (tmp_path / name).mkdir(exist_ok=True)
        with pytest.raises(KeyboardInterrupt):
            fill_atomic(tmp_path / name / "x.json", killed)
    mine = tmp_path / "notes.tmp"
    mine.write_text("mine")
    assert len(list(tmp_path.rglob(".oretro.*.tmp*"))) == len(left) == 4
    sweep(toy_config, tmp_path)
    assert list(tmp_path.rglob(".oretro.*.tmp*")) == []
    assert mine.read_text() == "mine"


def test_file_system_that_becomes_read_only_is_the_typed_error_and_nothing_is_lost(
    toy_config: SweepConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    def open_read_only(path, flags, *more, **named):
        if flags & os.O_CREAT:
            refuse()
        return real_open(path, flags, *more, **named)

    def remount(progress) -> None:
        if progress.done == 6:
            patch.setattr(os, "open", open_read_only)
            for name in ("unlink", "replace", "rename", "mkdir"):
                patch.setattr(os, name, refuse)

    with monkeypatch.context() as patch:
        with pytest.raises(InterruptedWriteError, match=r"Read-only file system.*same command"):
            sweep(toy_config, tmp_path, report=remount)
        # The holder's record could not be removed; it must block nobody later.
        assert (tmp_path / HOLDER_FILE).exists()
    assert sweep(toy_config, tmp_path).reused == 6


@pytest.fixture(params=NO_LOCKS, ids=errno.errorcode.get)
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(lock.fcntl, "flock", flock)


@pytest.fixture
def living() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process.pid
        process.kill()


def hold(folder: Path, pid: int, born: str | None, machine: str | None = None) -> None:
    facts = {"pid": pid, "machine": machine or socket.gethostname(), "born": born}
    (folder / HOLDER_FILE).write_text(json.dumps(facts))


def test_without_locks_a_sweep_runs_again_and_again(
    no_locks: None, toy_config: SweepConfig, tmp_path: Path
) -> None:
    assert sweep(toy_config, tmp_path).computed == 20
    (tmp_path / LOCK_FILE).touch()
    assert sweep(toy_config, tmp_path).reused == 20
    assert len(rows(tmp_path)) == 12


def test_without_locks_a_leftover_holder_blocks_nobody_and_a_living_one_does(
    no_locks: None, tmp_path: Path, living: int
) -> None:
    (tmp_path / LOCK_FILE).touch()
    born = lock._born(living)
    hold(tmp_path, living, born)
    with pytest.raises(FolderInUseError, match=f"process {living} on"), folder_lock(tmp_path):
        pass
    # The same number, but another process: the holder has ended long ago.
    for left in ("1", None):
        hold(tmp_path, living, left)
        with folder_lock(tmp_path):
            pass
    hold(tmp_path, 2**22 + 1, None)
    with folder_lock(tmp_path):
        pass


def test_without_locks_a_holder_elsewhere_is_named_with_the_way_out(
    no_locks: None, tmp_path: Path
) -> None:
    hold(tmp_path, 7, "1", machine="elsewhere")
    with (
        pytest.raises(FolderInUseError, match=r"without locks.*process 7 on elsewhere.*delete "),
        folder_lock(tmp_path),
    ):
        pass
    (tmp_path / HOLDER_FILE).unlink()
    with folder_lock(tmp_path):
        pass
