"""One number of threads for everything that computes: torch, and the BLAS under numpy."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from experiments.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator


def refuse_too_many(count: int | None) -> None:
    """Make sure that a number of threads is one that this machine has.

    Raises:
        ConfigError: it has fewer.
    """
    cores = os.cpu_count() or 1
    if count is not None and count > cores:
        raise ConfigError(f"threads: {count} are more than the {cores} of this machine")


@contextmanager
def pinned_threads(count: int) -> Iterator[None]:
    """Compute on ``count`` threads inside the block, then put the former numbers back.

    The order of summation, and so the last bits of a score, depend on this number: every engine
    pins it, also where it is what the library would have chosen.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    with threadpool_limits(limits=count):
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)
