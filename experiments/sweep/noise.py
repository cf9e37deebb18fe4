"""Stock against stock: how much a score moves when nothing but the arithmetic's order changes.

A change of RMSE that is no larger than this says nothing about a patch.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from experiments.sweep.config import SweepConfig

REPEAT = "stock@repeat"
"""The same call twice: anything but zero means that the machine does not repeat itself."""
OTHER_KERNELS = "stock@other-kernels"
"""One thread, matrix products without oneDNN, frozen weights: other kernels, another order of
summation. Patched models are frozen and stock's is not, and torch chooses kernels by that too."""


@contextmanager
def other_kernels() -> Iterator[None]:
    """Run the block on one thread and without oneDNN, then put both back."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            # torch speaks of TF32 on Intel GPUs here, which this has nothing to do with.
            warnings.filterwarnings("ignore", message="TF32", category=UserWarning)
            with torch.backends.mkldnn.flags(enabled=False):
                yield
    finally:
        torch.set_num_threads(threads)


RERUNS: dict[str, Callable[[], AbstractContextManager[None]]] = {OTHER_KERNELS: other_kernels}


def noise_names(config: SweepConfig) -> tuple[str, ...]:
    """Noise rows of every case; the other kernels exist on a CPU alone."""
    if not config.noise_floor:
        return ()
    return (REPEAT, OTHER_KERNELS) if config.device == "cpu" else (REPEAT,)
