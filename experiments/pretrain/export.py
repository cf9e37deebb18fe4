"""From a training checkpoint to tabpfn's own format, which stock ``TabPFNRegressor`` loads."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from experiments.errors import ConfigError, TrainingError
from experiments.pretrain.model import architecture_config, build_loss, build_model
from retrofit.files.atomic import fill_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from experiments.pretrain.checkpoint import Checkpoint
    from experiments.pretrain.config import PretrainConfig

# Ends of the names of tensors that float16 would make another target grid.
_EXACT = ("borders", "losses_per_bucket")
LICENCE = "Apache-2.0"
_AVERAGE_PREFIX = "module."


def notice(config: PretrainConfig) -> str:
    """What the model of a run is, and what it is not."""
    return (
        f"{architecture_config(config).name} architecture at mini size, trained by the oretro "
        "project on synthetic tasks. Not Prior Labs' model; its results say nothing about theirs."
    )


def inference_settings() -> dict[str, Any]:
    """tabpfn's v2.5 regressor preprocessing, with the limits of this small model.

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
    """The averaged weights under the model's own names.

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
    """The content of a tabpfn checkpoint; ``half`` stores all but the borders in float16."""
    config = checkpoint.read_config()
    weights = average_weights(checkpoint)
    if getattr(build_model(config), "regression_borders", None) is None:
        weights |= {f"criterion.{n}": v for n, v in build_loss(config).state_dict().items()}
    if half:
        weights = {n: v if n.endswith(_EXACT) else v.half() for n, v in weights.items()}
    return {
        "state_dict": weights,
        "architecture_name": config.architecture,
        "config": dataclasses.asdict(architecture_config(config)),
        "inference_config": inference_settings(),
        "oretro_pretraining": {
            "notice": notice(config),
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
        ConfigError: tabpfn takes a file of this name for another generation's.
        TrainingError: the run is not over and ``unfinished`` is False, or a weight is not finite.
    """
    from tabpfn.checkpoint import save_as_safetensors
    from tabpfn.model_loading import resolve_model_version

    if path.suffix != ".safetensors":
        raise ConfigError(f"--export: {path.name} must end in .safetensors.")
    architecture = checkpoint.read_config().architecture
    wanted = architecture.removeprefix("tabpfn_").replace("_", ".")
    if (found := resolve_model_version(path).value) != wanted:
        raise ConfigError(
            f"--export: tabpfn takes {path.name} for a {found} model; name the file with "
            f"'{wanted}'. The largest table it accepts depends on the name."
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

    path.parent.mkdir(parents=True, exist_ok=True)
    fill_atomic(path, fill)
