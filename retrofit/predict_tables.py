"""Many tables in few forward passes: padded with NULL rows and columns, predicted as if alone.

Each table is prepared and its prediction assembled by its own estimator. In between, the model
inputs that the estimators' engines would ask for one after the other are padded to the sizes of a
few buckets and run together.

Shapes: R rows, B tables of a bucket, C columns, N train rows, M test rows.
"""

from __future__ import annotations

import copy
import dataclasses
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from retrofit.buckets import Size, plan_buckets, v3_cost
from retrofit.clone import alias
from retrofit.closure import Presence, declaring
from retrofit.errors import UnsupportedModeError
from retrofit.hosts.fingerprint import require_known
from retrofit.hosts.v3_closed import OClosedTabPFNV3
from retrofit.hosts.v3_fingerprints import ENGINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike
    from torch import Tensor

    from retrofit.closed_regressor import ClosedRegressor
    from retrofit.patch import Patched


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
        NonFiniteOutputError: a logit of a present row is NaN or infinite.
    """
    _require_one_pass(patched, settings)
    template: ClosedRegressor = patched.regressor(**settings)
    model = template.model_path.model
    recorder = alias(model)
    recorder.__class__ = _Recorder
    recorder.calls = []
    template.set_params(model_path=dataclasses.replace(template.model_path, model=recorder))

    desks = []
    for X, y, X_test in tables:
        regressor = copy.copy(template).fit(X, y)
        if len(regressor.devices_) > 1:
            msg = f"tables in one pass run on one device, not on {len(regressor.devices_)}"
            raise UnsupportedModeError(msg)
        desks.append(_Desk(regressor, X_test))
    logits = _run(model, recorder.calls)
    return [desk.predict(logits, output_type=output_type, quantiles=quantiles) for desk in desks]


def _require_one_pass(patched: Patched, settings: dict[str, Any]) -> None:
    if patched.variant != "closed":
        msg = f"variant {patched.variant!r} would read the padding; patch with 'closed'"
        raise UnsupportedModeError(msg)
    for name, only in (("fit_mode", "fit_preprocessors"), ("tuning_config", None)):
        if settings.get(name, only) != only:
            msg = f"{name}={settings[name]!r} needs passes of its own for every table; leave it out"
            raise UnsupportedModeError(msg)
    require_known(ENGINE)


@dataclass(frozen=True, eq=False)
class _Call:
    """One member's table as an engine hands it to the model, and the surroundings of the call."""

    x_RC: Tensor
    y_N: Tensor
    options: dict[str, Any]
    autocast: torch.dtype | None

    @property
    def size(self) -> Size:
        rows, columns = self.x_RC.shape
        train = len(self.y_N)
        return Size(train, rows - train, columns)


class _Recorder(OClosedTabPFNV3):
    """Takes down what it is asked and answers with numbers of the calls: (M, B, 1)."""

    calls: list[_Call]

    def forward(  # type: ignore[override]  # the engine at hand passes nothing else
        self, x: Tensor, y: Tensor, *, task_type: str | None = None, **options: Any
    ) -> Any:
        batch, test = x.shape[1], x.shape[0] - y.shape[0]
        device = x.device.type
        autocast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        y_NB = y[:, None].expand(-1, batch) if y.dim() == 1 else y.reshape(len(y), batch)
        first = len(self.calls)
        for element in range(batch):
            kept = {"performance_options": options["performance_options"], "task_type": task_type}
            self.calls.append(_Call(x[:, element], y_NB[:, element], kept, autocast))
        numbers_B = torch.arange(first, first + batch, dtype=torch.float64, device=x.device)
        return numbers_B[None, :, None].expand(test, batch, 1)


class _Noted(Exception):
    """The engine has been asked, and there is no answer yet."""


class _Desk:
    """An estimator whose engine first only takes down what the model would be asked."""

    def __init__(self, regressor: ClosedRegressor, X_test: ArrayLike) -> None:
        self.regressor = regressor
        self.X_test = X_test
        self.members: list[tuple[int, Any]] = []
        self.logits: Sequence[Tensor] | None = None
        if regressor.is_constant_target_:
            return
        self.engine = regressor.executor_
        regressor.executor_ = self
        with suppress(_Noted):
            regressor.predict(X_test)

    def predict(self, logits: Sequence[Tensor], **asked: Any) -> Any:
        """The estimator's own prediction from the model's answers to all calls."""
        self.logits = logits
        return self.regressor.predict(self.X_test, **asked)

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


def _run(model: OClosedTabPFNV3, calls: Sequence[_Call]) -> list[Tensor]:
    """Logits (M, n_out) of every call, from one forward pass per bucket or memory budget."""
    logits: list[Tensor] = [torch.empty(0)] * len(calls)
    budget = model.estimator_batch_budget
    for size, members in plan_buckets([call.size for call in calls], v3_cost(model.config)):
        rows, cells = size.rows, size.rows * size.columns
        batch = max(1, min(budget.rows // rows, budget.cells // cells))
        for start in range(0, len(members), batch):
            part = members[start : start + batch]
            out_MBL = _padded_pass(model, size, [calls[index] for index in part])
            for position, index in enumerate(part):
                logits[index] = out_MBL[: calls[index].size.test, position]
    return logits


def _padded_pass(model: OClosedTabPFNV3, size: Size, calls: Sequence[_Call]) -> Tensor:
    """One forward pass (M, B, n_out) over tables padded to a common size."""
    first = calls[0]
    x_RBC = first.x_RC.new_full((size.rows, len(calls), size.columns), torch.nan)
    y_NB = first.y_N.new_full((size.train, len(calls)), torch.nan)
    masks = [
        torch.zeros(len(calls), length, dtype=torch.bool)
        for length in (size.train, size.test, size.columns)
    ]
    for position, call in enumerate(calls):
        own = call.size
        x_RBC[: own.train, position, : own.columns] = call.x_RC[: own.train]
        after = size.train + own.test
        x_RBC[size.train : after, position, : own.columns] = call.x_RC[own.train :]
        y_NB[: own.train, position] = call.y_N
        for mask, length in zip(masks, (own.train, own.test, own.columns), strict=True):
            mask[position, :length] = True
    padded = not all(mask.all() for mask in masks)
    device = x_RBC.device.type
    with (
        declaring(Presence(*masks) if padded else None),
        torch.autocast(device, dtype=first.autocast, enabled=first.autocast is not None),
        torch.inference_mode(),
    ):
        out_MBL: Tensor = model(x_RBC, y_NB, **first.options)
    return out_MBL
