"""Data-parallel processes: how they find each other, average gradients and notice a loss."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist

from experiments.errors import TrainingError
from experiments.machine.threads import pinned_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from experiments.pretrain.config import PretrainConfig

_T = TypeVar("_T")
_TIMEOUT = timedelta(minutes=10)


class Link:
    """One process's view of the group; a group of one needs no communication."""

    def __init__(self, rank: int = 0, processes: int = 1):
        self.rank = rank
        self.processes = processes

    def average(self, tensor: torch.Tensor) -> None:
        """Replace ``tensor`` by its mean over the processes, in place."""
        if self.processes > 1:
            with self._contact():
                dist.all_reduce(tensor)
            tensor.div_(self.processes)

    def agree(self, orders: _T) -> _T:
        """The orders of process 0."""
        told = [orders]
        if self.processes > 1:
            with self._contact():
                dist.broadcast_object_list(told)
        return told[0]

    def gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """The rows of every process's tensor, by rank."""
        parts = [tensor] * self.processes
        if self.processes > 1:
            with self._contact():
                dist.all_gather_object(parts, tensor)
        return torch.cat(parts)

    @contextmanager
    def _contact(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise TrainingError(
                f"process {self.rank} lost contact with the others ({error}). "
                "Run the same command again: it goes on from the last checkpoint."
            ) from error


@contextmanager
def _joined(rank: int, processes: int, meeting_point: str) -> Iterator[Link]:
    if processes == 1:
        yield Link()
        return
    dist.init_process_group(
        "gloo",
        init_method=Path(meeting_point).as_uri(),
        rank=rank,
        world_size=processes,
        timeout=_TIMEOUT,
    )
    try:
        yield Link(rank, processes)
        # Nobody takes the group down while another still talks to it.
        dist.barrier()
    finally:
        dist.destroy_process_group()


def _follow(
    body: Callable[[PretrainConfig, Path, Link], object],
    config: PretrainConfig,
    folder: Path,
    rank: int,
    meeting_point: str,
) -> None:
    """Run ``body`` in a process other than the first; that one alone reports and saves."""
    # Ctrl-C reaches the whole group: the first process decides and tells the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with (
            pinned_threads(config.threads),
            _joined(rank, config.processes, meeting_point) as link,
        ):
            body(config, folder, link)
    except TrainingError as error:
        print(f"process {rank}: {error}", file=sys.stderr, flush=True)
        # A half-closed group can hang in its own clean-up; nothing here needs any.
        os._exit(1)
    # gloo's threads may outlive the interpreter's, which ends in an abort; leave before that.
    os._exit(0)


def run_in_parallel(
    body: Callable[[PretrainConfig, Path, Link], object],
    lead: Callable[[Link], None],
    config: PretrainConfig,
    folder: Path,
) -> None:
    """Run ``lead`` here and ``body(config, folder, link)`` in ``processes - 1`` new processes.

    ``body`` must be importable by name. Raises ``TrainingError`` when a process is lost. A process
    that outlives the first one ends at its next exchange.
    """
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="oretro-") as scratch:
        meeting_point = str(Path(scratch) / "meeting")
        followers = [
            spawn.Process(
                target=_follow, args=(body, config, folder, rank, meeting_point), daemon=True
            )
            for rank in range(1, config.processes)
        ]
        for follower in followers:
            follower.start()
        try:
            with (
                pinned_threads(config.threads),
                _joined(0, config.processes, meeting_point) as link,
            ):
                lead(link)
            for follower in followers:
                follower.join(timeout=60)
        finally:
            for follower in followers:
                if follower.is_alive():
                    follower.terminate()
                    follower.join()
