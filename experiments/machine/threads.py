"""One number of threads for everything that computes: torch, and the BLAS under numpy."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
