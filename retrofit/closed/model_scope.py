"""Removal inside the model: features prepared once, rows and columns taken away from what it reads.

Shapes: N train rows, M test rows, C raw columns, D prepared columns of a member, L buckets.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from retrofit.closed.padded_passes import ModelCall, run_calls
from retrofit.closed.prepared_columns import PreparedColumns
from retrofit.closed.recording import Desk, recording_regressor
from retrofit.closed.request import Request
from retrofit.errors import UnsupportedModeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from retrofit.patching.patch import Patched

_ROWS_AT_A_TIME = 2**17
"""Rows, over coalitions and members, whose tables and logits are held at a time."""
_TRIAL = 4


class ModelScope:
    """One prepared ensemble, asked about parts of its table."""

    def __init__(self, patched: Patched, X: Any, y_N: np.ndarray, settings: dict[str, Any]) -> None:
        template, self._recorder, self._stock_of = recording_regressor(patched, settings)
        self._X, self._y_N = X, y_N
        self._budget = patched.generation.pass_budget(self._stock_of)
        self._regressor = template.fit(X, y_N)
        if len(self._regressor.devices_) > 1:
            msg = f"one table is answered on one device, not on {len(self._regressor.devices_)}"
            raise UnsupportedModeError(msg)
        self._constant = bool(self._regressor.is_constant_target_)
        self._own = self._desk(X)
        self._columns = {} if self._constant else self._prepared_columns()

    def answer(
        self, X_test: Any, requests: Sequence[Request], done: Callable[[int, np.ndarray], None]
    ) -> None:
        """Predicted means of each request's test rows, handed to ``done`` with its number."""
        if self._constant:
            for place, request in enumerate(requests):
                done(place, np.full(len(request.test), self._y_N[0]))
            return
        desk = self._own if X_test is self._X else self._desk(X_test)
        model = self._recorder.moved_likewise(self._stock_of)
        size = max((int(r.rows.sum()) + len(r.test) for r in requests), default=1)
        step = max(1, _ROWS_AT_A_TIME // (size * len(desk.members)))
        for start in range(0, len(requests), step):
            part = list(enumerate(requests[start : start + step], start))
            self._answer_part(model, desk, part, done)

    def estimate(self, n_coalitions: int, test_rows: int) -> tuple[int, float, float]:
        """Passes, memory in MiB, and seconds, from a trial of a few coalitions of half the rows."""
        rng = np.random.default_rng(0)
        rows, columns = len(self._y_N), self._X.shape[1]
        half = [rng.permutation(rows) < max(1, rows // 2) for _ in range(_TRIAL)]
        test = np.arange(min(test_rows, rows))
        trial = [Request(mask, np.ones(columns, dtype=bool), test) for mask in half]
        start = time.perf_counter()
        self.answer(self._X, trial, lambda *_: None)
        seconds = (time.perf_counter() - start) / _TRIAL * n_coalitions
        if self._constant:
            return 0, 0.0, seconds
        budget = self._budget
        members = len(self._own.members)
        size = rows // 2 + test_rows
        batch = max(1, budget.rows // size)
        width = max(columns.size for columns in self._columns.values())
        cells = min(batch, n_coalitions * members) * size * width
        return math.ceil(n_coalitions * members / batch), cells * 4 / 2**20, seconds

    def _desk(self, X_test: Any) -> Desk:
        """What the ensemble's members would be asked about ``X_test``."""
        return Desk(copy.copy(self._regressor), X_test, {"output_type": "mean"})

    def _prepared_columns(self) -> dict[int, PreparedColumns]:
        """By member, in the order of the desk: which raw columns its prepared ones hold."""
        members = {id(member.config): member for member in self._own.engine.ensemble_members}
        found = {}
        for place, (number, config) in enumerate(self._own.members):
            member, call = members[id(config)], self._recorder.calls[number]
            if member.feature_indices is not None or call.size.train != len(self._y_N):
                msg = (
                    "members that draw some of the rows or columns cannot be asked about others; "
                    "leave SUBSAMPLE_SAMPLES out, and give at most 500 columns"
                )
                raise UnsupportedModeError(msg)
            found[place] = PreparedColumns(member, self._own.seen, call.x_RC[: call.size.train])
        return found

    def _answer_part(
        self,
        model: Any,
        desk: Desk,
        part: Sequence[tuple[int, Request]],
        done: Callable[[int, np.ndarray], None],
    ) -> None:
        calls: list[ModelCall] = []
        asked: list[tuple[int, Request, float, float]] = []
        for place, request in part:
            y_N = self._y_N[request.rows]
            tables = [
                self._columns[member].taken(self._recorder.calls[number].x_RC, request.columns)
                for member, (number, _) in enumerate(desk.members)
            ]
            if np.all(y_N == y_N[0]) or any(table.shape[1] == 0 for table in tables):
                done(place, np.full(len(request.test), y_N.mean()))
                continue
            mean, scale = float(y_N.mean()), float(y_N.std()) + 1e-20
            asked.append((place, request, mean, scale))
            for table_RD, (number, config) in zip(tables, desk.members, strict=True):
                calls.append(self._call(number, config, table_RD, request, (y_N - mean) / scale))
        if not asked:
            return
        logits = run_calls(model, calls)
        members = len(desk.members)
        by_member = {
            number: torch.cat(logits[member::members])
            for member, (number, _) in enumerate(desk.members)
        }
        standard = (desk.predict(by_member) - self._regressor.y_train_mean_) / (
            self._regressor.y_train_std_
        )
        ends = np.cumsum([len(request.test) for _, request, _, _ in asked])[:-1]
        for (place, _, mean, scale), own in zip(asked, np.split(standard, ends), strict=True):
            done(place, own * scale + mean)

    def _call(
        self, number: int, config: Any, table_RD: Tensor, request: Request, z_N: np.ndarray
    ) -> ModelCall:
        """The recorded call of a member, on what the request leaves of its table."""
        recorded: ModelCall = self._recorder.calls[number]
        if config.target_transform is not None:
            # As fitted on the whole table: the preparation is kept.
            z_N = config.target_transform.transform(z_N[:, None])[:, 0]
        train = recorded.size.train
        rows = np.flatnonzero(request.rows)
        picked = torch.from_numpy(np.concatenate((rows, train + request.test)))
        y_N = torch.as_tensor(z_N, dtype=recorded.y_N.dtype, device=recorded.y_N.device)
        x_RD = table_RD[picked.to(table_RD.device)]
        return dataclasses.replace(recorded, x_RC=x_RD, y_N=y_N, statistics=None)
