"""Which rows and columns of a table are there: declared by the user, never guessed from zeros.

A zero is a value, and NaN is a missing value; both tell something about a row. A NULL row or
column takes no part at all, and only the caller can know that. A closed host gives the present
rows the predictions that it gives without the NULL ones, and never reads what stands in those.

Shapes: B batch, N train rows, M test rows, C columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from retrofit.errors import PresenceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from retrofit.hosts.insertion import Insertion


@dataclass(frozen=True, eq=False)
class Presence:
    """True for each row and column that is there, False for a NULL one; None if all are.

    A tensor, an array, a list or a pandas object: (B, N), (B, M), (B, C) with one line per batch
    element, or (N,), (M,), (C,) for all of them. It counts by position, whatever index a pandas
    object has, and is copied.

    Raises:
        PresenceError: a mask is not boolean or holds gaps, has another number of axes or another
            batch size than the rest, or leaves a batch element without any train row or column.
    """

    train_rows: Any = None
    test_rows: Any = None
    columns: Any = None

    def __post_init__(self) -> None:
        batches = {}
        for name in ("train_rows", "test_rows", "columns"):
            mask = getattr(self, name)
            if mask is None:
                continue
            mask = _copied_mask(name, mask)
            if name != "test_rows" and not bool(mask.any(-1).all()):
                msg = f"{name} leaves a table without any; a prediction needs at least one"
                raise PresenceError(msg)
            object.__setattr__(self, name, mask)
            if mask.ndim == 2:
                batches[name] = mask.shape[0]
        if len(set(batches.values())) > 1:
            msg = f"the masks disagree on the batch size: {batches}"
            raise PresenceError(msg)

    def masks(
        self, batch: int, train: int, test: int, columns: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The declaration for one call: train rows (B, N), test rows (B, M), columns (B, C).

        Raises:
            PresenceError: a mask does not fit the call's shapes.
        """
        return (
            _fitted("train_rows", self.train_rows, batch, train),
            _fitted("test_rows", self.test_rows, batch, test),
            _fitted("columns", self.columns, batch, columns),
        )


def _copied_mask(name: str, given: Any) -> Tensor:
    if isinstance(given, Tensor) and given.layout == torch.strided:
        mask, dtype = given.detach().clone(), str(given.dtype)
    else:
        array = _array(name, given)
        dtype = str(array.dtype)
        if array.dtype == object and all(isinstance(x, (bool, np.bool_)) for x in array.flat):
            array = array.astype(bool)
        mask = torch.from_numpy(array.copy()) if array.dtype == bool else torch.empty(0)
    if mask.dtype != torch.bool:
        msg = (
            f"{name} must be boolean, True for what is there and no gaps; its dtype is {dtype} "
            "(of an additive mask of 0 and -inf, give mask == 0)"
        )
        raise PresenceError(msg)
    if mask.ndim not in (1, 2):
        msg = f"{name} must have one axis, or two, batch first; its shape is {tuple(mask.shape)}"
        raise PresenceError(msg)
    return mask


def _array(name: str, given: Any) -> np.ndarray:
    try:
        array = np.asarray(given)
    except Exception as error:  # what an object of any kind raises when it is to be an array
        msg = f"{name} cannot be read as an array of booleans: {type(given).__name__}, {error}"
        raise PresenceError(msg) from error
    if np.ma.is_masked(given):
        msg = f"{name} is a masked array with gaps; fill them: mask.filled(False)"
        raise PresenceError(msg)
    return array


def _fitted(name: str, mask: Tensor | None, batch: int, length: int) -> Tensor:
    if mask is None:
        return torch.ones(batch, length, dtype=torch.bool)
    if mask.shape not in ((length,), (batch, length)):
        msg = (
            f"{name} has shape {tuple(mask.shape)}, and the table at hand needs ({length},) or "
            f"({batch}, {length})"
        )
        raise PresenceError(msg)
    return mask.expand(batch, length)


Statistics: TypeAlias = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Call:
    """What the calls of closed hosts are told besides their arguments, in one context."""

    presence: Presence | None = None
    """Which rows and columns of the table at hand are there; None where all are."""
    statistics: Statistics | None = None
    """What its columns are standardised by (B, C); None to take it from its present train rows.

    Whoever pads a table knows it to the last bit, which a column of equal numbers depends on:
    stock divides by a deviation that rounding makes 0 or not, by the order of its sums.
    """
    insertion: Insertion | None = None
    """NULL rows and columns that are yet to be put into the table at hand."""


_call: ContextVar[Call] = ContextVar("oretro_call", default=Call())  # noqa: B039  (immutable)


def current_call() -> Call:
    """What is said of the calls in this context."""
    return _call.get()


def declared() -> Presence | None:
    """The presence that is declared in this context; None where everything is present."""
    return _call.get().presence


@contextmanager
def calling(call: Call) -> Iterator[None]:
    """Tell ``call`` to every closed host that is called inside the block, in this thread only."""
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)


def declaring(presence: Presence | None) -> AbstractContextManager[None]:
    """Declare which rows and columns are there, for every closed host called inside the block.

    The declaration holds in the current thread only.
    """
    return calling(Call(presence=presence))


def may_hold_nulls() -> bool:
    """Whether blocks must reckon with NULL tokens; a traced graph always does."""
    return torch.compiler.is_compiling() or _call.get().presence is not None
