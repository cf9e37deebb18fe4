"""A host: a stock TabPFN regressor with everything that is needed to run it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from tabpfn import ModelSpecs, TabPFNRegressor
from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution
from tabpfn.architectures.tabpfn_v3 import TabPFNV3, TabPFNV3Config
from torch import Tensor

from retrofit.errors import UnsupportedHostError
from retrofit.files.digest import tensors_sha256
from retrofit.hosts.clone import alias, tensors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tabpfn.inference_config import InferenceConfig


@dataclass(frozen=True)
class HostDescription:
    """What a checkpoint file says of its host, without its weights."""

    name: str
    architecture_config: TabPFNV3Config
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
    model: TabPFNV3
    architecture_config: TabPFNV3Config
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

    @classmethod
    def from_model(
        cls, model: TabPFNV3, inference_config: InferenceConfig, *, name: str = "in-memory"
    ) -> Host:
        """A host from a TabPFN v3 regressor in memory, of which it keeps a copy.

        Raises:
            UnsupportedHostError: ``model`` is not a TabPFN v3, or a classifier.
        """
        if not isinstance(model, TabPFNV3):
            msg = (
                f"{name}: expected a TabPFNV3 model, got {type(model).__name__}; pass the module "
                "itself (for an estimator: the ModelSpecs or file that it was made from)"
            )
            raise UnsupportedHostError(msg)
        if model.task_type != "regression":
            msg = f"{name} is a {model.task_type} model; oretro patches regressors"
            raise UnsupportedHostError(msg)
        model = copy.deepcopy(model)
        state = tensors(model)
        borders = model.regression_borders.detach().to(torch.float32).clone()
        return cls(
            name=name,
            model=model,
            architecture_config=model.config,
            inference_config=copy.deepcopy(inference_config),
            criterion=FullSupportBarDistribution(borders, ignore_nan_targets=True),
            sha256=tensors_sha256(state),
            dtypes={key: tensor.dtype for key, tensor in state.items()},
        )

    def regressor(self, **settings: Any) -> TabPFNRegressor:
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
    def _regressor_class(self) -> type[TabPFNRegressor]:
        stock: type[TabPFNRegressor] = TabPFNRegressor
        return stock
