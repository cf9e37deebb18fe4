"""Calls of a closed model on tables of different sizes, in few passes padded with NULL tokens.

Shapes: R rows, B tables of a pass, C columns, N train rows, M test rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from retrofit.buckets import Size, plan_buckets, v3_cost
from retrofit.closure import Presence, declaring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from retrofit.hosts.v3_closed import OClosedTabPFNV3


@dataclass(frozen=True, eq=False)
class ModelCall:
    """One table as an engine hands it to the model, and the surroundings of the call."""

    x_RC: Tensor
    """Train and test rows."""
    y_N: Tensor
    options: dict[str, Any]
    """Keyword arguments of the model's forward, the same for all calls that are run together."""
    autocast: torch.dtype | None = None
    """dtype of the autocast around the call, if there was one."""

    @property
    def size(self) -> Size:
        """Train rows, test rows and columns."""
        rows, columns = self.x_RC.shape
        train = len(self.y_N)
        return Size(train, rows - train, columns)


def run_calls(model: OClosedTabPFNV3, calls: Sequence[ModelCall]) -> list[Tensor]:
    """Logits (M, n_out) of every call, from one forward pass per bucket or memory budget.

    Raises:
        NonFiniteOutputError: a logit of a present row is NaN or infinite.
    """
    logits: list[Tensor] = [torch.empty(0)] * len(calls)
    budget = model.estimator_batch_budget
    cost = v3_cost(model.config, calls[0].x_RC.device.type if calls else "cpu")
    for size, members in plan_buckets([call.size for call in calls], cost):
        rows, cells = size.rows, size.rows * size.columns
        batch = max(1, min(budget.rows // rows, budget.cells // cells))
        for start in range(0, len(members), batch):
            part = members[start : start + batch]
            out_MBL = _padded_pass(model, size, [calls[index] for index in part])
            for position, index in enumerate(part):
                logits[index] = out_MBL[: calls[index].size.test, position]
    return logits


def _padded_pass(model: OClosedTabPFNV3, size: Size, calls: Sequence[ModelCall]) -> Tensor:
    """One forward pass (M, B, n_out) over tables padded to a common size."""
    first = calls[0]
    x_RBC = first.x_RC.new_full((size.rows, len(calls), size.columns), torch.nan)
    y_NB = first.y_N.new_full((size.train, len(calls)), torch.nan)
    masks = [
        torch.zeros(len(calls), length, dtype=torch.bool)
        for length in (size.train, size.test, size.columns)
    ]
    for position, call in enumerate(calls):
        own = call.size
        x_RBC[: own.train, position, : own.columns] = call.x_RC[: own.train]
        after = size.train + own.test
        x_RBC[size.train : after, position, : own.columns] = call.x_RC[own.train :]
        y_NB[: own.train, position] = call.y_N
        for mask, length in zip(masks, (own.train, own.test, own.columns), strict=True):
            mask[position, :length] = True
    padded = not all(mask.all() for mask in masks)
    device = x_RBC.device.type
    with (
        declaring(Presence(*masks) if padded else None),
        torch.autocast(device, dtype=first.autocast, enabled=first.autocast is not None),
        torch.inference_mode(),
    ):
        out_MBL: Tensor = model(x_RBC, y_NB, **first.options)
    return out_MBL
