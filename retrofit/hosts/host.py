"""A host: a stock TabPFN regressor with everything that is needed to run it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from tabpfn import ModelSpecs
from torch import Tensor

from retrofit.errors import UnsupportedHostError
from retrofit.files.digest import tensors_sha256
from retrofit.hosts.clone import alias, tensors
from retrofit.hosts.display import clipped
from retrofit.hosts.registry import generation_of_model
from retrofit.hosts.regressor import HostRegressor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tabpfn.architectures.interface import ArchitectureConfig
    from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution
    from tabpfn.inference_config import InferenceConfig
    from torch import nn

    from retrofit.hosts.generation import Generation


@dataclass(frozen=True)
class HostDescription:
    """What a checkpoint file says of its host, without its weights."""

    name: str
    generation: Generation
    architecture_config: ArchitectureConfig
    path: Path | None
    sha256: str
    """sha256 of the file; empty when there is no file yet."""
    patched: bool = False
    """Whether the file holds a patched host already."""
    note: str = ""
    """What the reader should know, for example that the file is not on this machine."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Host:
    """A TabPFN model in memory, never changed by oretro.

    ``regressor`` hands out copies that share the weights' storage, so casting or moving a
    regressor's model leaves the host as it is.
    """

    name: str
    model: Any
    architecture_config: ArchitectureConfig
    inference_config: InferenceConfig
    criterion: FullSupportBarDistribution
    """Output distribution in standardised target space."""
    sha256: str
    """sha256 of the checkpoint file, or of the tensors for a model in memory."""
    path: Path | None = None
    dtypes: Mapping[str, torch.dtype] = field(default_factory=dict)
    """dtype of every tensor as its file stores it."""
    criterion_state: Mapping[str, Tensor] = field(default_factory=dict)
    """Tensors of the file that belong to the criterion rather than to the model."""
    note: str = ""
    """What the reader should know, for example what its file does not say itself."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {clipped(self.name)}: {self._summary}>"

    @property
    def _summary(self) -> str:
        parameters = list(self.model.parameters())
        count = sum(parameter.numel() for parameter in parameters)
        place = parameters[0].device if parameters else "cpu"
        return (
            f"TabPFN {self.generation.name}, {count:,} parameters on {place}, "
            f"sha256 {self.sha256[:12]}"
        )

    @classmethod
    def from_model(
        cls,
        model: nn.Module,
        inference_config: InferenceConfig,
        *,
        name: str = "in-memory",
        criterion: FullSupportBarDistribution | None = None,
    ) -> Host:
        """A host from a TabPFN regressor in memory, of which it keeps a copy.

        ``criterion`` is the output distribution in standardised target space; None where the
        model carries its borders, as from v3 on.

        Raises:
            UnsupportedHostError: ``model`` is no TabPFN that oretro patches, is a classifier, or
                carries no borders and ``criterion`` is None.
        """
        try:
            generation = generation_of_model(model)
        except UnsupportedHostError as error:
            msg = f"{name}: {error}"
            raise UnsupportedHostError(msg) from error
        if generation.task_of(model) != "regression":
            msg = f"{name} is a {generation.task_of(model)} model; oretro patches regressors"
            raise UnsupportedHostError(msg)
        carried = generation.criterion(model) if criterion is None else copy.deepcopy(criterion)
        if carried is None:
            msg = (
                f"{name} carries no borders of its output distribution; give criterion=, for "
                "example the znorm_space_bardist_ of a fitted estimator"
            )
            raise UnsupportedHostError(msg)
        host_model: Any = copy.deepcopy(model)
        host_model.config = generation.config_of(model)
        state = tensors(host_model)
        return cls(
            name=name,
            model=host_model,
            architecture_config=host_model.config,
            inference_config=copy.deepcopy(inference_config),
            criterion=carried,
            sha256=tensors_sha256(state),
            dtypes={key: tensor.dtype for key, tensor in state.items()},
            criterion_state=_criterion_state(generation, host_model, carried),
        )

    @property
    def generation(self) -> Generation:
        """The TabPFN generation that the model belongs to."""
        return generation_of_model(self.model)

    def regressor(self, **settings: Any) -> HostRegressor:
        """An unfitted ``TabPFNRegressor`` on a copy of this model.

        ``settings`` are tabpfn's own. Two defaults differ from tabpfn's: float32 inference
        rather than "auto", which is bfloat16 on some machines, and an unquantised key/value
        cache.
        """
        spec = ModelSpecs(
            model=alias(self.model),
            architecture_config=self.architecture_config,
            inference_config=copy.deepcopy(self.inference_config),
            norm_criterion=copy.deepcopy(self.criterion),
        )
        defaults = {"inference_precision": torch.float32, "kv_cache_precision": "auto"}
        return self._regressor_class(model_path=spec, **(defaults | settings))

    @property
    def _regressor_class(self) -> type[HostRegressor]:
        return HostRegressor


def _criterion_state(
    generation: Generation, model: nn.Module, criterion: FullSupportBarDistribution
) -> dict[str, Tensor]:
    """What a file must hold of an output distribution that its model does not carry."""
    if generation.criterion(model) is not None:
        return {}
    return {f"criterion.{name}": value for name, value in tensors(criterion).items()}
