"""A way to watch a patched host at work, without state on its modules.

Calibration, call counting and the audit see carriers through a probe that is active for the
duration of a ``with`` block, in the current context only. Copies and pickles of a model never
carry one.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator


class Probe:
    """Base of all probes: every callback does nothing.

    Shapes: B batch, S receivers, J sources, H heads, D head width, E model width.
    """

    def carrier(self, stream: str, h: Tensor) -> None:
        """A carrier ``h`` (..., E), before the pre-norm, on its way into the named stream."""

    def visit(self, site: str) -> None:
        """The named site is about to run."""

    def attention(self, site: str, q_BHSD: Tensor, k_BHJD: Tensor, p_BJ: Tensor) -> None:
        """Scaled queries, keys (may have fewer heads) and source presences of one attention."""


_active: ContextVar[Probe | None] = ContextVar("oretro_probe", default=None)


def active_probe() -> Probe | None:
    """The probe of this context; None when there is none or while a graph is traced."""
    return None if torch.compiler.is_compiling() else _active.get()


@contextmanager
def probing(probe: Probe) -> Iterator[None]:
    """Make ``probe`` the active one inside the block."""
    token = _active.set(probe)
    try:
        yield
    finally:
        _active.reset(token)
