"""Stages: the places of a forward pass at which a host's tokens can be looked at.

Shapes: R rows, C columns; a layout orders the axes of a state between batch and width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

CELLS = "cells"
"""Name of the stage at which carriers begin: every generation has one."""
LOGITS = "logits"
"""Name of the stage of a model's output."""


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
    label: str
    """The stage as a reader would call it."""
    scaffold: bool = False
    """Whether its tokens only serve others, so that a state of theirs is no leak by itself."""

    def before(self) -> Stage:
        """The same tokens on their way into the module."""
        return replace(self, name=f"{self.name}, input", side="input")


@dataclass(frozen=True)
class Look:
    """How one site is seen to act, the rest of the model being as it should be.

    ``own``: carriers are zero, and the others' as without NULL tokens, before every stage.
    ``raw``: NULL cells stand in the table. ``zero``: the site's module is given zeros. ``count``:
    the site's module is called with the number of sources. ``rank``: NULL columns stand between
    the others, or after them.
    """

    way: Literal["own", "raw", "zero", "count", "rank"]
    stages: tuple[str | Stage, ...] = ()
    """Stages that show the site's work; a name, or a stage that is looked at for this alone."""
    places: tuple[str, ...] = ()
    """Insertions that show it."""
    silenced: tuple[str, ...] = ()
    """Linear layers that give zero meanwhile."""
    revives: bool = True
    """Whether what NULL tokens get there is the site's doing."""
    dilutes: bool = True
    """Whether what other tokens lose there is the site's doing."""
