"""A regressor without a network: fast, and it can be told to fail, to lie, or to emit NaN."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from threadpoolctl import threadpool_info

from experiments.data import make_table
from experiments.data.registry import Source
from experiments.sweep.config import SweepConfig
from experiments.sweep.schema import CaseRow
from experiments.sweep.variants import PatchedVariant, Subjects

TELL = 0
"""In place of a number of rows: the file that fatal fits are told to."""


class FakeModel:
    """Adds ``shift`` to every prediction; NaN shows as 0 unless its guard is taken off."""

    def __init__(
        self,
        shift: float = 0.0,
        error: BaseException | None = None,
        move_error: Exception | None = None,
    ) -> None:
        self.shift = shift
        self.error = error
        self.move_error = move_error
        self.frozen = False
        self._nan_safe_output = True

    def requires_grad_(self, wanted: bool) -> FakeModel:
        self.frozen = not wanted
        return self

    def output(self) -> float:
        if self.error is not None:
            raise self.error
        return 0.0 if np.isnan(self.shift) and self._nan_safe_output else self.shift


class FakeExecutor:
    """The four names that a shared fit relies on."""

    def __init__(self, model: FakeModel) -> None:
        self.model_caches = [model]
        self.ensemble_members = ["prepared"]

    def _set_models(self, models: list[FakeModel]) -> None:
        self.model_caches = list(models)

    def _move_models_to_devices(self, devices: Any) -> None:
        for model in self.model_caches:
            if model.move_error is not None:
                raise model.move_error
        self.devices = devices


class FakeRegressor:
    """Predicts the training mean plus half of the first numeric column's deviation."""

    def __init__(
        self,
        model: FakeModel,
        fit_error: BaseException | None,
        fatal: dict[int, str] | None = None,
        **settings: Any,
    ) -> None:
        self._fatal = fatal or {}
        self.settings = settings
        self.fit_mode = settings.get("fit_mode", "fit_preprocessors")
        self._model = model
        self._fit_error = fit_error
        self.fits = 0

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> FakeRegressor:
        if self._fit_error is not None:
            raise self._fit_error
        fate = self._fatal.get(len(y))
        if fate is not None and self._fatal.get(TELL):
            with Path(self._fatal[TELL]).open("a") as file:
                file.write(f"{fate}\n")
        if fate == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fate == "hangs":
            time.sleep(600)
        elif fate == "exits":
            sys.exit(0)
        self.fits += 1
        self.models_ = [self._model]
        self.devices_ = ["cpu"]
        self.executor_ = FakeExecutor(self._model)
        self.is_constant_target_ = np.unique(y).size == 1
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X: pd.DataFrame, output_type: str, quantiles: list[float]) -> dict[str, Any]:
        assert output_type == "full"
        first = X.iloc[:, 0].to_numpy(dtype=np.float64)
        mean = self.mean_ + 0.5 * np.nan_to_num(first)
        if self.is_constant_target_:
            mean = np.full(len(X), self.mean_)
        else:
            mean = mean + self.executor_.model_caches[0].output()
        return {
            "mean": mean,
            "quantiles": [mean - 1.0 for _ in quantiles[:1]] + [mean + 1.0 for _ in quantiles[1:]],
            "logits": torch.zeros(len(X), 2),
            "criterion": lambda logits, y: (y - torch.as_tensor(mean)).abs(),
        }


@dataclass
class FakeHost:
    """A host whose regressors carry a fresh copy of its model, as the real one's do."""

    name: str = "fake"
    sha256: str = "f" * 64
    shift: float = 0.0
    fit_error: BaseException | None = None
    fatal: dict[int, str] = field(default_factory=dict)
    """Number of training rows to what their fit does: ``killed``, ``hangs`` or ``exits``."""
    made: list[FakeRegressor] = field(default_factory=list)

    def regressor(self, **settings: Any) -> FakeRegressor:
        model = FakeModel(self.shift)
        regressor = FakeRegressor(model, self.fit_error, self.fatal, **settings)
        self.made.append(regressor)
        return regressor


@contextmanager
def count_one() -> Any:
    yield Counter({"fake": 1})


@contextmanager
def count_none() -> Any:
    yield Counter()


def subjects(
    host: FakeHost | None = None, record: Any = count_one, **models: FakeModel
) -> Subjects:
    models = models or {"oa": FakeModel(0.01), "full": FakeModel(-0.02)}
    patched = tuple(PatchedVariant(name, model, report(name)) for name, model in models.items())
    return Subjects(host or FakeHost(), False, patched, record)


def load_fakes(
    config: SweepConfig, sha256: str = "f" * 64, tell: str = "", **fatal: int
) -> Subjects:
    """A loader that worker processes can import; ``killed=7`` ends any fit on 7 rows.

    Fits that end so leave a line each in the file ``tell``.
    """
    fates = {rows: fate for fate, rows in fatal.items()}
    return subjects(FakeHost(sha256=sha256, fatal={**fates, TELL: tell}))


def load_nothing_in_workers(config: SweepConfig, parent: int, tell: Path) -> Subjects:
    if os.getpid() != parent:
        tell.write_text(str(os.getpid()))
        raise FileNotFoundError("host.ckpt")
    return load_fakes(config)


@dataclass
class ThreadCountingHost(FakeHost):
    """Fails with the numbers of threads that a fit would have had: errors come back from workers"""

    parent: int = 0

    def regressor(self, **settings: Any) -> FakeRegressor:
        blas = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        place = "here" if os.getpid() == self.parent else "in a worker"
        raise RuntimeError(f"torch {torch.get_num_threads()}, BLAS {sorted(blas)}, {place}")


def load_thread_counters(config: SweepConfig, parent: int) -> Subjects:
    return subjects(ThreadCountingHost(parent=parent))


def report(name: str) -> dict[str, Any]:
    streams = [{"name": "s", "tau": 0.1, "null_radius": radius} for radius in (0.1, 0.3)]
    return {"config": {"variant": name}, "streams": streams}


def toy_row(dataset: str, seed: int, variant: str, **fields: Any) -> CaseRow:
    """A scored row; RMSE 1 unless given."""
    scores = {"rmse": 1.0, "mae": 0.5, "r2": 0.9, "nll": 1.5}
    scores |= {name: fields.pop(name) for name in list(fields) if name in scores}
    return CaseRow(
        suite="toy",
        dataset=dataset,
        source="toy",
        data_sha256="d" * 64,
        seed=seed,
        variant=variant,
        host="mini",
        host_sha256="f" * 64,
        n_train=14,
        n_test=6,
        n_features=2,
        **{"scores": scores, "fit_s": 0.1, "predict_s": 0.2, **fields},
    )


def toy_frame(rows: int = 20, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    kind = np.where(rng.random(rows) < 0.5, "a", "b").astype(object)
    return pd.DataFrame({"x": x, "kind": kind, "y": 2.0 * x + rng.normal(size=rows)})


def toy_source(**frames: pd.DataFrame) -> Source:
    def load(name: str, settings: Any) -> Any:
        return make_table(frames[name], name=name, target="y", licence="ours", source="toy")

    return Source("toy", lambda: frames, load)
