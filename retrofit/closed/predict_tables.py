"""Many tables in few forward passes: padded with NULL rows and columns, predicted as if alone.

Each table is prepared and its prediction assembled by its own estimator. In between, the model
inputs that the estimators' engines would ask for one after the other are padded to the sizes of a
few buckets and run together.

Shapes: R rows, B tables of a bucket, C columns, N train rows, M test rows.
"""

from __future__ import annotations

import copy
import dataclasses
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from tabpfn.architectures.shared.workaround_mps_linear_bug import maybe_replace_linears_on_mps

from retrofit.closed.padded_passes import ModelCall, run_calls
from retrofit.errors import RetrofitError, TableError, UnsupportedModeError
from retrofit.hosts.clone import alias
from retrofit.hosts.fingerprint import require_known
from retrofit.hosts.patched_model import PatchedModel

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import ArrayLike
    from torch import Tensor

    from retrofit.closed.regressor import ClosedRegressor
    from retrofit.patching.patch import Patched


def predict_tables(
    patched: Patched,
    tables: Sequence[tuple[ArrayLike, ArrayLike, ArrayLike]],
    *,
    output_type: str = "mean",
    quantiles: list[float] | None = None,
    **settings: Any,
) -> list[Any]:
    """Predictions of many tables, equal up to rounding to those of one estimator per table.

    Args:
        patched: A host of variant ``closed``.
        tables: Train features (N, C), train targets (N,) and test features (M, C) of each.
        output_type: As for ``TabPFNRegressor.predict``.
        quantiles: As for ``TabPFNRegressor.predict``.
        settings: As for ``patched.regressor``, for all tables alike.

    Returns:
        For each table what ``patched.regressor(**settings).fit(...).predict(...)`` returns.

    Raises:
        UnsupportedModeError: the host is not closed, or the settings ask for something that one
            pass over many tables cannot do: another ``fit_mode``, or several devices.
        UnsupportedHostError: the installed tabpfn drives its models in an unknown way.
        TableError: the estimator refuses a table, or what is asked of it; it says which table.
        NonFiniteOutputError: a logit of a present row is NaN or infinite; it says of which table.
    """
    _require_one_pass(patched, settings)
    asked = {"output_type": output_type, "quantiles": quantiles}
    template: ClosedRegressor = patched.regressor(**settings)
    model = template.model_path.model
    recorder = _Recorder.standing_in_for(model, patched.generation.stand_in_modules)
    template.set_params(model_path=dataclasses.replace(template.model_path, model=recorder))

    desks = []
    for index, table in enumerate(tables):
        recorder.table = index
        with _naming(index):
            X, y, X_test = table
            regressor = copy.copy(template).fit(X, y)
        if len(regressor.devices_) > 1:
            msg = f"tables in one pass run on one device, not on {len(regressor.devices_)}"
            raise UnsupportedModeError(msg)
        with _naming(index):
            desks.append(_Desk(regressor, X_test, asked))
    logits = run_calls(recorder.moved_likewise(model), recorder.calls)
    predictions = []
    for index, desk in enumerate(desks):
        with _naming(index):
            predictions.append(desk.predict(logits))
    return predictions


@contextmanager
def _naming(index: int) -> Iterator[None]:
    """Say of which table an error of tabpfn's inside the block is."""
    try:
        yield
    except RetrofitError:
        raise
    except Exception as error:
        raise TableError(index, error) from error


def _require_one_pass(patched: Patched, settings: dict[str, Any]) -> None:
    if patched.variant != "closed":
        msg = f"variant {patched.variant!r} would read the padding; patch with 'closed'"
        raise UnsupportedModeError(msg)
    for name, only in (("fit_mode", "fit_preprocessors"), ("tuning_config", None)):
        if settings.get(name, only) != only:
            msg = f"{name}={settings[name]!r} needs passes of its own for every table; leave it out"
            raise UnsupportedModeError(msg)
    require_known(patched.generation.engine_fingerprints)


class _Recorder(PatchedModel):
    """Takes down what it is asked and answers with numbers of the calls: (M, B, 1)."""

    calls: list[ModelCall]
    table: int
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


class _Desk:
    """An estimator whose engine first only takes down what the model would be asked."""

    def __init__(
        self, regressor: ClosedRegressor, X_test: ArrayLike, asked: dict[str, Any]
    ) -> None:
        self.regressor = regressor
        self.X_test = X_test
        self.asked = asked
        self.members: list[tuple[int, Any]] = []
        self.logits: Sequence[Tensor] | None = None
        if regressor.is_constant_target_:
            return
        self.engine = regressor.executor_
        regressor.executor_ = self
        with suppress(_Noted):
            regressor.predict(X_test, **asked)

    def predict(self, logits: Sequence[Tensor]) -> Any:
        """The estimator's own prediction from the model's answers to all calls."""
        self.logits = logits
        return self.regressor.predict(self.X_test, **self.asked)

    def use_torch_inference_mode(self, *, use_inference: bool) -> None:
        """Part of an engine's face."""
        self.engine.use_torch_inference_mode(use_inference=use_inference)

    def iter_outputs(self, X: Any, **how: Any) -> Iterator[tuple[Tensor, Any]]:
        """Part of an engine's face: logits (M, n_out) and settings of each ensemble member."""
        if self.logits is None:
            for number_M1, config in self.engine.iter_outputs(X, **how):
                self.members.append((int(number_M1[0, 0]), config))
            raise _Noted
        for number, config in self.members:
            yield self.logits[number], config
