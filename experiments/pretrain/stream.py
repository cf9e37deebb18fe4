"""The stream of training batches: a function of seed, step, process and progress, with no state.

Nothing has to be saved to resume it, and no two steps or processes share a task.

Shapes: R rows, B tasks of a batch, C columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from experiments.prior import PriorConfig, TaskShape, sample_task
from experiments.prior.draw import log_uniform_int

if TYPE_CHECKING:
    from collections.abc import Iterable

    from experiments.pretrain.config import DataConfig, ValidationConfig

_SHAPES, _TASKS, _VALIDATION = 1, 2, 3
# Work per row that does not depend on the number of columns, in columns.
_ROW_COST = 6


@dataclass(frozen=True)
class Batch:
    """Tasks of one shape: ``x_RBC`` and ``y_RB``; the first ``train_rows`` rows are context."""

    x_RBC: torch.Tensor
    y_RB: torch.Tensor
    train_rows: int


def _collate(
    generators: Iterable[np.random.Generator], shape: TaskShape, prior: PriorConfig
) -> Batch:
    tasks = [sample_task(rng, shape, prior) for rng in generators]
    return Batch(
        x_RBC=torch.from_numpy(np.stack([task.x_RC for task in tasks], axis=1)),
        y_RB=torch.from_numpy(np.stack([task.y_R for task in tasks], axis=1)),
        train_rows=shape.train_rows,
    )


def draw_shape(data: DataConfig, seed: int, step: int, progress: float) -> tuple[TaskShape, int]:
    """The task shape of a step and the number of tasks each process adds to it."""
    phase = next(p for p in data.curriculum if progress <= p.until or p.until == 1.0)
    rng = np.random.default_rng([_SHAPES, seed, step])
    rows = log_uniform_int(rng, *phase.rows)
    columns = log_uniform_int(rng, *phase.columns)
    train_rows = min(max(2, round(rows * rng.uniform(*data.train_share))), rows - 1)
    tasks = round(data.cells / (rows * (columns + _ROW_COST)))
    return TaskShape(rows, columns, train_rows), min(max(tasks, 1), data.max_tasks)


def training_batch(
    data: DataConfig, prior: PriorConfig, *, seed: int, step: int, rank: int, progress: float
) -> Batch:
    """The batch of one process at one step. Every process draws the same shape."""
    shape, count = draw_shape(data, seed, step, progress)
    generators = (np.random.default_rng([_TASKS, seed, step, rank, i]) for i in range(count))
    return _collate(generators, shape, prior)


def validation_batches(
    validation: ValidationConfig, prior: PriorConfig, *, rank: int = 0, processes: int = 1
) -> list[Batch]:
    """This process's share of the validation tasks, seven tenths of each task as context."""
    batches = []
    for index, (rows, columns) in enumerate(validation.shapes):
        shape = TaskShape(rows, columns, max(2, round(0.7 * rows)))
        generators = [
            np.random.default_rng([_VALIDATION, validation.seed, index, i])
            for i in range(rank, validation.tasks, processes)
        ]
        if generators:
            batches.append(_collate(generators, shape, prior))
    return batches
