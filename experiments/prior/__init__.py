"""Synthetic regression tasks: what the built-in mini host is trained on."""

from __future__ import annotations

from experiments.prior.config import PriorConfig
from experiments.prior.task import Task, TaskShape, sample_task

__all__ = ["PriorConfig", "Task", "TaskShape", "sample_task"]
