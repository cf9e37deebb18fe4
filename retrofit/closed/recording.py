"""What an estimator asks its model, taken down; and the estimator's own reading of the answers.

Shapes: R rows, B members of an engine's batch, C columns, N train rows, M test rows.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from tabpfn.architectures.shared.workaround_mps_linear_bug import maybe_replace_linears_on_mps

from retrofit.closed.padded_passes import ModelCall
from retrofit.errors import UnsupportedModeError
from retrofit.hosts.clone import alias
from retrofit.hosts.fingerprint import require_known
from retrofit.hosts.patched_model import PatchedModel

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike
    from torch import Tensor

    from retrofit.closed.regressor import ClosedRegressor
    from retrofit.patching.patch import Patched


def recording_regressor(patched: Patched, settings: dict[str, Any]) -> tuple[Any, Any, Any]:
    """An unfitted regressor whose model only takes down calls; that recorder; and the model.

    Raises:
        UnsupportedModeError: the host is not closed, or the settings ask for something that one
            pass over many tables cannot do: another ``fit_mode``, or several devices.
        UnsupportedHostError: the installed tabpfn drives its models in an unknown way.
    """
    if patched.variant != "closed":
        msg = f"variant {patched.variant!r} would read the padding; patch with 'closed'"
        raise UnsupportedModeError(msg)
    for name, only in (("fit_mode", "fit_preprocessors"), ("tuning_config", None)):
        if settings.get(name, only) != only:
            msg = f"{name}={settings[name]!r} needs passes of its own for every table; leave it out"
            raise UnsupportedModeError(msg)
    require_known(patched.generation.engine_fingerprints)
    template: ClosedRegressor = patched.regressor(**settings)
    model = template.model_path.model
    recorder = Recorder.standing_in_for(model, patched.generation.stand_in_modules)
    template.set_params(model_path=dataclasses.replace(template.model_path, model=recorder))
    return template, recorder, model


class Recorder(PatchedModel):
    """Takes down what it is asked and answers with numbers of the calls: (M, B, 1)."""

    calls: list[ModelCall]
    table: int = 0
    """Index of the tables that the next calls are about."""

    @classmethod
    def standing_in_for(cls, model: Any, kept: Collection[str]) -> Any:
        """A stand-in with what engines look at in a model, and next to none of the weights.

        ``kept`` are the modules that it needs: the first weights, whose dtype and device engines
        look at, and what standardises a table.
        """
        recorder = alias(model)
        for name in [name for name, _ in recorder.named_children() if name not in kept]:
            delattr(recorder, name)
        recorder.__class__ = type(cls.__name__, (cls, type(model)), {})
        recorder.calls = []
        return recorder

    def moved_likewise(self: Any, model: Any) -> Any:
        """``model`` on the device and in the dtype that the engines brought this stand-in to."""
        weight = next(self.parameters())
        maybe_replace_linears_on_mps(model, [weight.device])
        return model.to(weight.device, weight.dtype)

    def forward(  # type: ignore[override]  # the engine at hand passes nothing else
        self: Any, x: Tensor, y: Tensor, *, task_type: str | None = None, **options: Any
    ) -> Any:
        """Part of a model's face: numbers of the calls (M, B, 1)."""
        batch, test = x.shape[1], x.shape[0] - y.shape[0]
        device = x.device.type
        autocast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        y_NB = y[:, None].expand(-1, batch) if y.dim() == 1 else y.reshape(len(y), batch)
        first = len(self.calls)
        statistics = self.train_statistics(x, y.shape[0])
        for element in range(batch):
            own = {name: value_BC[element] for name, value_BC in statistics.items()}
            kept = {"performance_options": options["performance_options"], "task_type": task_type}
            call = ModelCall(x[:, element], y_NB[:, element], kept, autocast, own, self.table)
            self.calls.append(call)
        numbers_B = torch.arange(first, first + batch, dtype=torch.float64, device=x.device)
        return numbers_B[None, :, None].expand(test, batch, 1)


class _Noted(Exception):
    """The engine has been asked, and there is no answer yet."""


class Desk:
    """An estimator whose engine first only takes down what the model would be asked."""

    def __init__(
        self, regressor: ClosedRegressor, X_test: ArrayLike, asked: dict[str, Any]
    ) -> None:
        self.regressor = regressor
        self.X_test = X_test
        self.asked = asked
        self.members: list[tuple[int, Any]] = []
        self.seen: Any = None
        """X_test as the engine gets it, cleaned and encoded (M, C)."""
        self.logits: Sequence[Tensor] | Mapping[int, Tensor] | None = None
        if regressor.is_constant_target_:
            return
        self.engine = regressor.executor_
        regressor.executor_ = self
        with suppress(_Noted):
            regressor.predict(X_test, **asked)

    def predict(self, logits: Sequence[Tensor] | Mapping[int, Tensor]) -> Any:
        """The estimator's own prediction from the model's answers to all calls."""
        self.logits = logits
        return self.regressor.predict(self.X_test, **self.asked)

    def use_torch_inference_mode(self, *, use_inference: bool) -> None:
        """Part of an engine's face."""
        self.engine.use_torch_inference_mode(use_inference=use_inference)

    def iter_outputs(self, X: Any, **how: Any) -> Iterator[tuple[Tensor, Any]]:
        """Part of an engine's face: logits (M, n_out) and settings of each ensemble member."""
        if self.logits is None:
            self.seen = X
            for number_M1, config in self.engine.iter_outputs(X, **how):
                self.members.append((int(number_M1[0, 0]), config))
            raise _Noted
        for number, config in self.members:
            yield self.logits[number], config
