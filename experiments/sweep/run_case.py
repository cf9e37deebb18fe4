"""One case from table to scores: preprocessing fitted once, every variant put under it.

``run_case`` is a generator, so that each finished row is on disk before the next one starts.
"""

from __future__ import annotations

import dataclasses
import math
import time
import traceback
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from experiments.errors import CaseError
from experiments.io.text import shortened, visible
from experiments.machine.memory import peak_rss_mb
from experiments.sweep.baselines import BASELINES, run_baseline
from experiments.sweep.folder.predictions import detail
from experiments.sweep.metrics import OWN, Prediction, collapsed, score, scores
from experiments.sweep.noise import REPEAT, RERUNS
from experiments.sweep.predict import predict
from experiments.sweep.schema import CaseRow, fault
from experiments.sweep.shared_fit import strict_model, with_frozen_model, with_model
from experiments.sweep.variant_name import is_noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    import pandas as pd
    from tabpfn import TabPFNRegressor
    from torch import nn

    from experiments.sweep.cases import PlannedCase
    from experiments.sweep.config import SweepConfig
    from experiments.sweep.variants import Subjects

Details = dict[str, Any]
_Made = TypeVar("_Made")
_ERROR_LENGTH = 500
_TRACE_LENGTH = 20_000


@dataclass(frozen=True, eq=False)
class Result:
    """A finished row, and what is kept beside it to explain it."""

    row: CaseRow
    details: Details = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Parts:
    """Train and test part of one case."""

    X_train: pd.DataFrame
    y_train: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    metric: tuple[str, ...] = ()
    """Scorers of the user's choice."""
    rows: np.ndarray | None = None
    """Row numbers of the test part where its predictions are kept."""


def run_case(
    config: SweepConfig, planned: PlannedCase, subjects: Subjects, wanted: tuple[str, ...]
) -> Iterator[Result]:
    """Yield one result per wanted name: a variant, a noise condition, or a baseline.

    The variants' order is rotated by the seed, so that none of them always comes first. An error
    fails its own row alone; an error of the shared fit fails the rows of all variants.
    """
    rows = {name: _blank_row(config, planned, subjects, name) for name in wanted}
    if planned.skip:
        for row in rows.values():
            yield Result(dataclasses.replace(row, status="skipped", error=planned.skip))
        return
    parts = _parts(planned, config)
    if planned.fault:
        for row in rows.values():
            yield _failed(row, CaseError(planned.fault))
        return
    for name in wanted:
        if name in BASELINES:
            yield _guard(rows.pop(name), partial(_baseline, name, planned, parts))
    if not rows:
        return

    outcome = _attempt(partial(_fit, config, planned, parts, subjects))
    if isinstance(outcome, BaseException):
        for row in rows.values():
            yield _failed(row, outcome)
        return
    fitted, fit_s = outcome
    models = {patched.name: patched.model for patched in subjects.patched}
    rerun = dataclasses.replace(parts, rows=None)
    for name in _rotated(list(rows), planned.case.seed):
        row = dataclasses.replace(rows[name], fit_s=fit_s)
        if name == REPEAT:
            work = partial(_timed, 1, fitted, rerun)
        elif name in RERUNS:
            work = partial(_rerun, name, fitted, rerun)
        elif name in models:
            work = partial(_patched, config.timing_repeats, fitted, models[name], parts, subjects)
        else:
            work = partial(_stock, config.timing_repeats, fitted, parts)
        yield _guard(row, work, remark=planned.remark)


def failed_case(
    config: SweepConfig,
    planned: PlannedCase,
    subjects: Subjects,
    wanted: tuple[str, ...],
    error: BaseException,
) -> list[Result]:
    """Rows of a case that ended without any, because its process did."""
    return [_failed(_blank_row(config, planned, subjects, name), error) for name in wanted]


def _blank_row(config: SweepConfig, planned: PlannedCase, subjects: Subjects, name: str) -> CaseRow:
    """Everything of a row that is known before anything is computed."""
    hosted = name not in BASELINES
    return CaseRow(
        suite=config.suite,
        dataset=planned.case.dataset,
        source=planned.table.source,
        data_sha256=planned.table.sha256,
        seed=planned.case.seed,
        variant=name,
        host=config.host if hosted else "",
        host_sha256=subjects.host.sha256 if hosted else "",
        n_train=len(planned.split.train),
        n_test=len(planned.split.test),
        n_features=planned.table.X.shape[1],
    )


def _parts(planned: PlannedCase, config: SweepConfig) -> Parts:
    table, split = planned.table, planned.split
    return Parts(
        table.X.iloc[split.train],
        table.y[split.train],
        table.X.iloc[split.test],
        table.y[split.test],
        config.metric,
        split.test if config.save_predictions else None,
    )


def _fit(
    config: SweepConfig, planned: PlannedCase, parts: Parts, subjects: Subjects
) -> tuple[TabPFNRegressor, float]:
    """Fit the preprocessing on a regressor of the stock host, whose NaN guard is taken off."""
    import torch

    regressor = subjects.host.regressor(
        n_estimators=config.n_estimators,
        random_state=planned.case.seed,
        device=config.device,
        inference_precision=torch.float32,
        fit_mode="fit_preprocessors",
        ignore_pretraining_limits=True,
    )
    start = time.perf_counter()
    regressor.fit(parts.X_train, parts.y_train)
    seconds = time.perf_counter() - start
    if not regressor.is_constant_target_:
        strict_model(regressor)
    return regressor, seconds


def _rotated(names: list[str], seed: int) -> list[str]:
    """Variants in an order that differs between seeds, then the noise conditions."""
    variants = [name for name in names if not is_noise(name)]
    turn = seed % max(len(variants), 1)
    return variants[turn:] + variants[:turn] + [name for name in names if is_noise(name)]


def _timed(
    repeats: int, regressor: TabPFNRegressor, parts: Parts
) -> tuple[dict[str, Any], Details]:
    predictions = [predict(regressor, parts.X_test, parts.y_test) for _ in range(repeats)]
    return _scored(predictions, parts)


def _stock(
    repeats: int, regressor: TabPFNRegressor, parts: Parts
) -> tuple[dict[str, Any], Details]:
    fields, details = _timed(repeats, regressor, parts)
    return ({**fields, "status": "dead"} if fields["error"] else fields), details


def _patched(
    repeats: int, fitted: TabPFNRegressor, model: nn.Module, parts: Parts, subjects: Subjects
) -> tuple[dict[str, Any], Details]:
    """As ``_timed``, with proof that the patch ran: stock's attention would leave no record."""
    # Moves the model to its device, which may be full.
    regressor = with_model(fitted, model)
    with subjects.record_kernels() as kernels:
        fields, details = _timed(repeats, regressor, parts)
    if not kernels and not regressor.is_constant_target_:
        raise CaseError("no O-attention ran during the prediction: the patched model was not used")
    return fields, {**details, "kernels": dict(kernels)}


def _rerun(name: str, fitted: TabPFNRegressor, parts: Parts) -> tuple[dict[str, Any], Details]:
    with RERUNS[name]():
        frozen = with_frozen_model(fitted)
        return _scored([predict(frozen, parts.X_test, parts.y_test)], parts)


def _scored(
    predictions: Sequence[Prediction | BaseException], parts: Parts
) -> tuple[dict[str, Any], Details]:
    """Scores of the first prediction as fields of a row; times of all of them."""
    first = predictions[0]
    if isinstance(first, BaseException):
        raise first
    found = score(first, parts.y_test, parts.metric)
    seconds = [p.seconds for p in predictions if isinstance(p, Prediction)]
    one_value = collapsed(first, parts.y_test)
    remark = "all predicted means are equal, up to rounding" if one_value else ""
    fields = {"scores": found, "predict_s": median(seconds), "error": remark}
    return fields, {"predict_seconds": seconds, **_kept(first, parts)}


def _kept(prediction: Prediction, parts: Parts) -> Details:
    return {} if parts.rows is None else detail(parts.rows, parts.y_test, prediction.mean_N)


def _baseline(name: str, planned: PlannedCase, parts: Parts) -> tuple[dict[str, Any], Details]:
    outcome = run_baseline(name, planned.case.seed, parts.X_train, parts.y_train, parts.X_test)
    found = score(outcome.prediction, parts.y_test, parts.metric)
    seconds = outcome.prediction.seconds
    return {"scores": found, "fit_s": outcome.fit_s, "predict_s": seconds}, _kept(
        outcome.prediction, parts
    )


def _guard(
    row: CaseRow, work: Callable[[], tuple[dict[str, Any], Details]], remark: str = ""
) -> Result:
    outcome = _attempt(work)
    if isinstance(outcome, BaseException):
        return _failed(row, outcome)
    fields, details = outcome
    undefined = [one.name for one in scores(fields["scores"]) if one.table == OWN]
    undefined = [name for name in undefined if math.isnan(fields["scores"][name])]
    if undefined and not fields.get("error"):
        fields["error"] = f"not defined on these targets: {', '.join(undefined)}"
    if remark:
        fields |= {"status": "constant", "error": remark}
    done = dataclasses.replace(row, **fields, peak_rss_mb=peak_rss_mb())
    if reason := fault(done):
        return _failed(row, CaseError(f"no row can be made of its scores: {reason}"))
    return Result(done, details)


def _failed(row: CaseRow, error: BaseException) -> Result:
    try:
        text = visible(shortened(str(error), 2 * _ERROR_LENGTH))
    except Exception as second:  # an error that cannot be told is still one
        text = f"cannot be told: its text is a {type(second).__name__}"
    line = shortened(f"{type(error).__name__}: {text}", _ERROR_LENGTH)
    try:
        trace = "".join(traceback.format_exception(error))
    except Exception:
        trace = line
    failed = dataclasses.replace(row, status="failed", error=line, peak_rss_mb=peak_rss_mb())
    return Result(failed, {"traceback": trace[-_TRACE_LENGTH:]})


def _attempt(work: Callable[[], _Made]) -> _Made | BaseException:
    """What ``work`` makes, or its error; of all that can be raised an interrupt alone goes on.

    ``SystemExit`` as well is an error of the code that raised it: a host does not end a sweep.
    """
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return error
