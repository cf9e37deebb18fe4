"""Training checkpoints: one file from which a run goes on exactly where it was."""

from __future__ import annotations

import pickle
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from experiments.errors import TrainingError
from experiments.pretrain.config import PretrainConfig
from retrofit.files.atomic import fill_atomic

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 3
FILE_NAME = "checkpoint.pt"
_FREE = ("threads", "tick_steps", "checkpoint_seconds", "validation_seconds")


@dataclass
class Checkpoint:
    """State after ``step`` steps. Data needs no state: it is a function of seed and step."""

    config: str
    step: int
    progress: float
    elapsed_s: float
    tasks: int
    skipped: int
    finished: bool
    model: dict[str, Any]
    optimiser: dict[str, Any]
    figures: dict[str, float]
    curve: list[list[str]]
    pace: list[list[str]]
    format: int = FORMAT

    def save(self, path: Path) -> None:
        """Write the checkpoint atomically; an earlier one is replaced only by a whole one."""
        fill_atomic(path, lambda draft: torch.save(asdict(self), draft))

    def read_config(self) -> PretrainConfig:
        """The configuration that made this checkpoint."""
        return PretrainConfig.model_validate_json(self.config)

    def check_config(self, config: PretrainConfig, path: Path) -> None:
        """Raise ``TrainingError`` unless ``config`` continues this checkpoint's run."""
        mine, theirs = self.read_config().model_dump(), config.model_dump()
        changed = [k for k in mine if k not in _FREE and mine[k] != theirs[k]]
        if changed:
            raise TrainingError(
                f"{path} belongs to another run: {', '.join(changed)} differ. "
                "Choose another folder with --out, or restore the old configuration."
            )


def load_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint, read without unpickling objects. Raises ``TrainingError`` if it is unusable."""
    try:
        raw = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise TrainingError(f"{path}: there is no checkpoint; start the run first.") from None
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise TrainingError(f"{path}: is no readable checkpoint ({error}).") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise TrainingError(f"{path}: is no checkpoint of format {FORMAT} of `oretro pretrain`.")
    try:
        return Checkpoint(**raw)
    except TypeError as error:
        raise TrainingError(f"{path}: fields are missing or unknown ({error}).") from error
