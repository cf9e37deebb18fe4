"""Stages: the places of a forward pass at which a host's tokens can be looked at.

Shapes: R rows, C columns; a layout orders the axes of a state between batch and width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

CELLS = "cells"
"""Name of the stage at which carriers begin: every generation has one."""


@dataclass(frozen=True, eq=False)
class Places:
    """Which rows and columns of a table are its own, and which were put in (False)."""

    train: Tensor
    """(N,)"""
    test: Tensor
    """(M,)"""
    columns: Tensor
    """(C,)"""

    @property
    def rows(self) -> Tensor:
        """Train and test rows together (R,)."""
        import torch

        return torch.cat((self.train, self.test))


@dataclass(frozen=True)
class Stage:
    """A place on the way through the host at which tokens can be looked at."""

    name: str
    """Name of the block or site whose work the states show."""
    module: str
    """Qualified name of the module that is hooked."""
    side: Literal["input", "output"]
    present: Callable[[Places], Tensor]
    """True for each token of a state, without batch and width, that belongs to the table."""
