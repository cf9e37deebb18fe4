"""Which attention kernels ran: a counter that a caller may open around any code."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_COUNTERS: ContextVar[tuple[Counter[str], ...]] = ContextVar("_COUNTERS", default=())
_LOCK = threading.Lock()


@contextmanager
def record_kernels() -> Iterator[Counter[str]]:
    """Count the attention kernels that run inside the block, by name.

    Recorders may be nested; each counts everything that runs inside it. A recorder belongs to the
    context that opened it: another thread's calls are counted only if it runs in a copy of that
    context. Code inside ``torch.compile`` is not counted, since counting would break its graph.
    """
    counter: Counter[str] = Counter()
    token = _COUNTERS.set((*_COUNTERS.get(), counter))
    try:
        yield counter
    finally:
        _COUNTERS.reset(token)


def count_kernel(name: str) -> None:
    """Add one call of kernel ``name`` to every open recorder."""
    counters = _COUNTERS.get()
    if counters:
        with _LOCK:
            for counter in counters:
                counter[name] += 1
