"""A model from the content of a checkpoint file, as tabpfn builds it from the file.

tabpfn's own loader would read the file a second time, keeps what it read by path, time and size,
and takes the kind of a file from its name.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from pydantic import TypeAdapter
from tabpfn.architectures import ARCHITECTURES
from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution
from tabpfn.inference_config import InferenceConfig

from retrofit.errors import CheckpointError, RetrofitError, brief
from retrofit.files.seal import is_criterion
from retrofit.hosts.registry import generation_of, generations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrofit.files.checkpoint import Checkpoint

_RENAMED = {"CONSTANT_FEATURE_COUNT": "FEATURE_SUBSAMPLING_CONSTANT_FEATURE_COUNT"}
"""Preprocessing settings that early checkpoints call otherwise."""


class Built(NamedTuple):
    """What a checkpoint holds, built."""

    model: Any
    criterion: FullSupportBarDistribution
    architecture_config: Any
    inference_config: InferenceConfig


def as_tabpfn_reads(checkpoint: Checkpoint) -> Checkpoint:
    """An early file, completed by what tabpfn supplies for its generation; others as they are.

    Released files of v2 name no architecture, those of v2.5 call it ``base``, and neither hold
    preprocessing settings. tabpfn goes by the name alone, and would read any file without one as
    v2; here the tensors must be the generation's, too.
    """
    fields = checkpoint.fields
    name, settings = (fields.get(field) for field in ("architecture_name", "inference_config"))
    for generation in generations():
        early = name in generation.early_names and generation.early_tensors(checkpoint.tensors)
        if not early:
            continue
        supplied = [] if name == generation.architecture_name else ["the architecture"]
        if not settings:
            default = InferenceConfig.get_default("regression", generation.versions[0])
            settings = TypeAdapter(InferenceConfig).dump_python(default, mode="json")
            supplied.append("its preprocessing settings")
        known = {"architecture_name": generation.architecture_name, "inference_config": settings}
        note = f"an early file of TabPFN {generation.name}: tabpfn supplies "
        note += " and ".join(supplied)
        return replace(
            checkpoint,
            fields={**fields, **known},
            tensors=early,
            note=note if supplied else "",
        )
    return checkpoint


def parsed_config(checkpoint: Checkpoint) -> Any:
    """The architecture's configuration.

    Raises:
        CheckpointError: it is none of its architecture, is not the one that was saved, or speaks
            of blocks that the file has no weights of.
    """
    with refusing(checkpoint, "its configuration does not fit its architecture"):
        architecture = ARCHITECTURES[checkpoint.architecture_name]
        config, _ = architecture.parse_config(dict(checkpoint.config))
        # At the first that is missing: a damaged file may speak of millions.
        for block, _ in generation_of(checkpoint.architecture_name).blocks(config):
            if not any(name.startswith(f"{block}.") for name in checkpoint.tensors):
                msg = (
                    f"the weights do not fit the configuration: there are none of {block}; keys "
                    "with a prefix such as 'module.' or '_orig_mod.' come from a wrapped model: "
                    "save the inner model"
                )
                raise CheckpointError(msg)
    return config


def build(checkpoint: Checkpoint) -> Built:
    """The regressor that a checkpoint holds, in evaluation mode.

    Raises:
        CheckpointError: its parts do not fit together, or are not those that were saved.
    """
    config = parsed_config(checkpoint)
    with refusing(checkpoint, "its preprocessing settings are not tabpfn's"):
        settings = checkpoint.inference_config.items()
        inference_config = InferenceConfig(**{_RENAMED.get(k, k): v for k, v in settings})
    with refusing(checkpoint, "its weights do not fit its configuration"):
        # Weights are drawn, only to be replaced: the caller's random numbers stay as they are.
        with torch.random.fork_rng(devices=[]):
            model: Any = ARCHITECTURES[checkpoint.architecture_name].get_architecture(config)
        # Models of some generations do not carry it by themselves.
        model.config = config
        model.load_state_dict({k: v for k, v in checkpoint.tensors.items() if not is_criterion(k)})
        model.eval()
        criterion = _criterion(checkpoint, model)
    return Built(model, criterion, config, inference_config)


def _criterion(checkpoint: Checkpoint, model: Any) -> FullSupportBarDistribution:
    """The output distribution: up to v2.6 a file holds its borders beside the model."""
    state = {k.replace("criterion.", ""): v for k, v in checkpoint.criterion_state.items()}
    borders = state.get("borders")
    if borders is None:
        borders = model.regression_borders
    criterion = FullSupportBarDistribution(borders, ignore_nan_targets=True)
    if state:
        criterion.load_state_dict(state)
    return criterion


@contextmanager
def refusing(checkpoint: Checkpoint, claim: str) -> Iterator[None]:
    """Make one error of whatever a foreign file's content raises inside the block.

    Raises:
        CheckpointError: ``claim``, and what was raised.
    """
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{checkpoint.path}: {error}") from error
    except (RetrofitError, MemoryError):
        raise
    except Exception as error:
        msg = f"{checkpoint.path}: {claim} ({brief(error) or type(error).__name__})"
        raise CheckpointError(msg) from error
