"""From a training checkpoint to tabpfn's own format, which stock ``TabPFNRegressor`` loads."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from experiments.errors import ConfigError, TrainingError
from experiments.pretrain.files import fill_atomic
from experiments.pretrain.model import ARCHITECTURE, architecture_config

if TYPE_CHECKING:
    from pathlib import Path

    from experiments.pretrain.checkpoint import Checkpoint

BORDERS = "regression_borders"
NOTICE = (
    "TabPFN v3 architecture at mini size, trained by the oretro project on synthetic tasks. "
    "Not Prior Labs' model; its results say nothing about theirs."
)
LICENCE = "Apache-2.0"
_AVERAGE_PREFIX = "module."


def inference_settings() -> dict[str, Any]:
    """Return tabpfn's v2.5 regressor preprocessing, with the limits of this small model.

    The row fingerprint column is off: the training tasks have none. Raises nothing.
    """
    from tabpfn.constants import ModelVersion
    from tabpfn.inference_config import InferenceConfig

    stock = InferenceConfig.get_default("regression", ModelVersion.V2_5)
    settings = dataclasses.replace(
        stock,
        FINGERPRINT_FEATURE=False,
        MAX_NUMBER_OF_FEATURES=100,
        MAX_NUMBER_OF_SAMPLES=5_000,
        MAX_CPU_SAMPLES=5_000,
    )
    return dataclasses.asdict(settings)


def average_weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """Return the averaged weights under the model's own names.

    Raises:
        TrainingError: a weight is not finite.
    """
    average = checkpoint.optimiser["average"]
    weights = {
        name.removeprefix(_AVERAGE_PREFIX): value.detach().clone()
        for name, value in average.items()
        if name.startswith(_AVERAGE_PREFIX)
    }
    broken = [name for name, value in weights.items() if not bool(torch.isfinite(value).all())]
    if broken:
        raise TrainingError(f"the averaged weights are not finite in {', '.join(broken)}.")
    return weights


def host_checkpoint(checkpoint: Checkpoint, *, half: bool = False) -> dict[str, Any]:
    """Return the content of a tabpfn checkpoint; ``half`` stores all but the borders in float16."""
    config = checkpoint.read_config()
    weights = average_weights(checkpoint)
    if half:
        weights = {n: v if n == BORDERS else v.half() for n, v in weights.items()}
    return {
        "state_dict": weights,
        "architecture_name": ARCHITECTURE,
        "config": dataclasses.asdict(architecture_config(config.model)),
        "inference_config": inference_settings(),
        "oretro_pretraining": {
            "notice": NOTICE,
            "licence": LICENCE,
            "name": config.name,
            "seed": config.seed,
            "steps": checkpoint.step,
            "tasks": checkpoint.tasks,
            "finished": checkpoint.finished,
            "figures": checkpoint.figures,
        },
    }


def export_host(
    checkpoint: Checkpoint, path: Path, *, half: bool = False, unfinished: bool = False
) -> None:
    """Write the averaged weights to ``path`` (``.safetensors``), atomically.

    Raises:
        ConfigError: the name is not one under which tabpfn recognises a v3 checkpoint.
        TrainingError: the run is not over and ``unfinished`` is False, or a weight is not finite.
    """
    from tabpfn.checkpoint import save_as_safetensors

    if path.suffix != ".safetensors":
        raise ConfigError(f"--export: {path.name} must end in .safetensors.")
    if "v3" not in path.stem:
        raise ConfigError(
            f"--export: {path.name} must contain 'v3'; tabpfn reads a model's generation, and "
            "with it the largest table it accepts, from the file name."
        )
    if not (checkpoint.finished or unfinished):
        raise TrainingError(
            f"the run stands at step {checkpoint.step}, {100 * checkpoint.progress:.1f} % of its "
            "budget; let it finish, or export what is there with --unfinished."
        )
    content = host_checkpoint(checkpoint, half=half)

    def fill(draft: Path) -> None:
        save_as_safetensors(content, draft)
        # safetensors keeps its files from everybody else; a host is meant to be shared.
        draft.chmod(0o644)

    fill_atomic(path, fill)
