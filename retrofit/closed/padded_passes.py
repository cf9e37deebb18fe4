"""Calls of a closed model on tables of different sizes, in few passes padded with NULL tokens.

Shapes: R rows, B tables of a pass, C columns, N train rows, M test rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from retrofit.closed.buckets import plan_buckets
from retrofit.errors import NonFiniteOutputError
from retrofit.hosts.cost import Size
from retrofit.hosts.declare import Call, Presence, calling
from retrofit.hosts.registry import generation_of_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from retrofit.hosts.declare import Statistics


@dataclass(frozen=True, eq=False)
class ModelCall:
    """One table as an engine hands it to the model, and the surroundings of the call."""

    x_RC: Tensor
    """Train and test rows."""
    y_N: Tensor
    options: dict[str, Any]
    """Keyword arguments of the model's forward; only in saving memory may calls differ."""
    autocast: torch.dtype | None = None
    """dtype of the autocast around the call, if there was one."""
    statistics: Statistics | None = None
    """What the engine's own call would standardise columns by (C,); None if it is this table."""
    table: int = 0
    """Which of the caller's tables it is about; errors name it."""

    @property
    def size(self) -> Size:
        """Train rows, test rows and columns."""
        rows, columns = self.x_RC.shape
        train = len(self.y_N)
        return Size(train, rows - train, columns)

    @property
    def memory_saving(self) -> int:
        """In how many parts the model is to work at a time; 0 for all at once."""
        performance = self.options.get("performance_options")
        return 0 if performance is None else performance.save_peak_memory_factor or 0

    def standardised_by(self, model: Any) -> Statistics:
        """Mean and deviation of each column (C,)."""
        if self.statistics is not None:
            return self.statistics
        fitted = model.train_statistics(self.x_RC[:, None], len(self.y_N))
        return {name: value_1C[0] for name, value_1C in fitted.items()}


def run_calls(model: Any, calls: Sequence[ModelCall]) -> list[Tensor]:
    """Logits (M, n_out) of every call, from one forward pass per bucket or memory budget.

    Raises:
        NonFiniteOutputError: a logit of a present row is NaN or infinite; it says of which table.
    """
    logits: list[Tensor] = [torch.empty(0)] * len(calls)
    generation = generation_of_model(model)
    budget = generation.pass_budget(model)
    device_type = calls[0].x_RC.device.type if calls else "cpu"
    cost = generation.cost(model.config, device_type)
    for size, members in plan_buckets([call.size for call in calls], cost):
        rows, cells = size.rows, size.rows * size.columns
        batch = max(1, min(budget.rows // rows, budget.cells // cells))
        for start in range(0, len(members), batch):
            part = members[start : start + batch]
            asked = [calls[index] for index in part]
            try:
                out_MBL = _padded_pass(model, size, asked)
            except NonFiniteOutputError as error:
                raise _naming_table(error, model, asked) from error
            for position, index in enumerate(part):
                logits[index] = out_MBL[: calls[index].size.test, position]
    return logits


def _naming_table(
    error: NonFiniteOutputError, model: Any, calls: Sequence[ModelCall]
) -> NonFiniteOutputError:
    """The error of the first table that fails alone too; ``error`` if none does."""
    for call in calls:
        try:
            _padded_pass(model, call.size, [call])
        except NonFiniteOutputError as own:
            return NonFiniteOutputError(f"tables[{call.table}]: {own}")
    return error


def _padded_pass(model: Any, size: Size, calls: Sequence[ModelCall]) -> Tensor:
    """One forward pass (M, B, n_out) over tables padded to a common size."""
    # Saving memory changes no prediction; if one table needs it, so does the pass.
    first = max(calls, key=lambda call: call.memory_saving)
    x_RBC = first.x_RC.new_full((size.rows, len(calls), size.columns), torch.nan)
    y_NB = first.y_N.new_full((size.train, len(calls)), torch.nan)
    # Without padding the model finds by itself what nobody has told.
    alone = all(call.statistics is None and call.size == size for call in calls)
    statistics: dict[str, Tensor] = {}
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
        for name, value_C in ({} if alone else call.standardised_by(model)).items():
            # What stands in a NULL column is NULL whatever it is divided by.
            everywhere_BC = statistics.setdefault(name, x_RBC.new_ones(len(calls), size.columns))
            everywhere_BC[position, : own.columns] = value_C
        for mask, length in zip(masks, (own.train, own.test, own.columns), strict=True):
            mask[position, :length] = True
    padded = not all(mask.all() for mask in masks)
    device = x_RBC.device.type
    with (
        calling(Call(Presence(*masks) if padded else None, None if alone else statistics)),
        torch.autocast(device, dtype=first.autocast, enabled=first.autocast is not None),
        torch.inference_mode(),
    ):
        run = generation_of_model(model).run
        out_MBL: Tensor = run(model, x_RBC, y_NB, **first.options)
    return out_MBL
