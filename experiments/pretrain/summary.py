"""What a run would do, without doing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.pretrain.checkpoint import FILE_NAME, load_checkpoint
from experiments.pretrain.clock import Clock
from experiments.pretrain.model import build_model

if TYPE_CHECKING:
    from pathlib import Path

    from experiments.pretrain.config import PretrainConfig


def describe(config: PretrainConfig, folder: Path) -> dict[str, Any]:
    """Name, size, budget and what is already in ``folder``.

    Raises:
        ConfigError: the pace to replay cannot be used.
        TrainingError: the folder holds another run, or an unreadable checkpoint.
    """
    Clock(config.budget, config.tick_steps)
    model = build_model(config)
    path = folder / FILE_NAME
    found = "a new run"
    if path.exists():
        saved = load_checkpoint(path)
        saved.check_config(config, path)
        found = "a finished run" if saved.finished else f"a run at step {saved.step}"
    return {
        "name": config.name,
        "architecture": config.architecture,
        "seed": config.seed,
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "budget": config.budget.model_dump_json(),
        "processes": config.processes,
        "threads": config.threads,
        "run": str(folder),
        "holds": found,
    }
