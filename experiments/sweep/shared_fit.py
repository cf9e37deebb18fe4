"""One fitted preprocessing, many models: put another model under a fitted TabPFN regressor.

tabpfn has no public call for this, so the internals that are used are checked first; that the
result equals a fresh fit bit for bit is shown by the tests.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from experiments.errors import UnsupportedTabPFNError

if TYPE_CHECKING:
    from tabpfn import TabPFNRegressor
    from torch import nn

_ESTIMATOR_ATTRIBUTES = ("executor_", "models_", "devices_")
_EXECUTOR_ATTRIBUTES = (
    "_set_models",
    "_move_models_to_devices",
    "ensemble_members",
    "model_caches",
)


def with_model(fitted: TabPFNRegressor, model: nn.Module) -> TabPFNRegressor:
    """Return a regressor that predicts with ``model`` on the preprocessing of ``fitted``.

    ``fitted`` keeps its own model. Its prepared ensemble members are shared, not copied. A
    regressor fitted on a constant target never runs a network and is returned as it is.

    Raises:
        UnsupportedTabPFNError: ``fitted`` is not fitted in mode ``fit_preprocessors`` on one model,
            or the installed tabpfn keeps its state elsewhere.
    """
    if getattr(fitted, "is_constant_target_", False):
        return fitted
    _check(fitted)
    swapped = copy.copy(fitted)
    executor = copy.copy(fitted.executor_)
    executor._set_models([model])
    executor._move_models_to_devices(swapped.devices_)
    swapped.models_ = [model]
    swapped.executor_ = executor
    return swapped


def with_frozen_model(fitted: TabPFNRegressor) -> TabPFNRegressor:
    """Return a regressor on a copy of the model of ``fitted`` whose weights cannot be trained.

    torch chooses matrix kernels by that flag among others, so that it decides the last digits.

    Raises:
        UnsupportedTabPFNError: as ``with_model``.
    """
    if getattr(fitted, "is_constant_target_", False):
        return fitted
    _check(fitted)
    return with_model(fitted, copy.deepcopy(fitted.models_[0]).requires_grad_(False))


def strict_model(fitted: TabPFNRegressor) -> Any:
    """Return the regressor's own model, told to let NaN scores through.

    tabpfn's newer networks replace NaN in their output by zero, which then looks like a prediction.
    The model must belong to ``fitted`` alone, as that of ``Host.regressor`` does: it is changed.

    Raises:
        UnsupportedTabPFNError: the model has no such switch.
    """
    _check(fitted)
    model: Any = fitted.models_[0]
    if not hides_nan(model):
        return model
    if not hasattr(model, "_nan_safe_output"):
        raise UnsupportedTabPFNError(
            f"{type(model).__name__} has no attribute '_nan_safe_output', so NaN in its output "
            "could not be told from a prediction; install tabpfn>=9.2,<9.3"
        )
    model._nan_safe_output = False
    return model


def hides_nan(model: Any) -> bool:
    """Whether a model replaces NaN in its output; one that oretro does not know is asked itself."""
    from retrofit.errors import UnsupportedHostError
    from retrofit.hosts.registry import generation_of_model

    try:
        return generation_of_model(model).hides_nan
    except UnsupportedHostError:
        return True


def _check(fitted: TabPFNRegressor) -> None:
    missing = [name for name in _ESTIMATOR_ATTRIBUTES if not hasattr(fitted, name)]
    if not missing:
        missing = [
            f"executor_.{name}"
            for name in _EXECUTOR_ATTRIBUTES
            if not hasattr(fitted.executor_, name)
        ]
    if missing:
        raise UnsupportedTabPFNError(
            f"the fitted regressor has no {', '.join(missing)}; fit it in mode "
            "'fit_preprocessors' and use tabpfn>=9.2,<9.3"
        )
    if fitted.fit_mode != "fit_preprocessors":
        raise UnsupportedTabPFNError(
            f"fit mode '{fitted.fit_mode}' keeps results of its own model; "
            "a shared fit needs 'fit_preprocessors'"
        )
    if len(fitted.models_) != 1:
        raise UnsupportedTabPFNError(
            f"the regressor averages {len(fitted.models_)} models; a shared fit needs exactly one"
        )
