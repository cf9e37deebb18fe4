"""Removal from the table itself: the whole estimator prepared on what remains, as by a refit.

Shapes: N train rows, M test rows, C columns.
"""

from __future__ import annotations

import time
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from retrofit.closed.parts import among, part
from retrofit.closed.predict_tables import predict_tables
from retrofit.closed.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from retrofit.patching.patch import Patched

_ROWS_AT_A_TIME = 2**15
_TRIAL = 2


class PipelineScope:
    """Estimators of the remaining tables, predicted together."""

    def __init__(self, patched: Patched, X: Any, y_N: np.ndarray, settings: dict[str, Any]) -> None:
        self._patched, self._X, self._y_N, self._settings = patched, X, y_N, settings

    def answer(
        self, X_test: Any, requests: Sequence[Request], done: Callable[[int, np.ndarray], None]
    ) -> None:
        """Predicted means of each request's test rows, handed to ``done`` with its number."""
        asked = []
        for place, request in enumerate(requests):
            y_N = self._y_N[request.rows]
            if np.all(y_N == y_N[0]) or self._is_constant(request):
                done(place, np.full(len(request.test), y_N.mean()))
            else:
                asked.append((place, request))
        asked.sort(key=lambda item: item[1].columns.tobytes())
        for _, group in groupby(asked, key=lambda item: item[1].columns.tobytes()):
            same = list(group)
            size = max(int(r.rows.sum()) + len(r.test) for _, r in same)
            step = max(1, _ROWS_AT_A_TIME // size)
            for start in range(0, len(same), step):
                self._answer_part(X_test, same[start : start + step], done)

    def estimate(self, n_coalitions: int, test_rows: int) -> tuple[int, float, float]:
        """Passes (one per coalition at most), memory in MiB, and seconds, from a trial."""
        rng = np.random.default_rng(0)
        rows, columns = self._X.shape
        half = [rng.permutation(rows) < max(2, rows // 2) for _ in range(_TRIAL)]
        test = np.arange(min(test_rows, rows))
        trial = [Request(mask, np.ones(columns, dtype=bool), test) for mask in half]
        start = time.perf_counter()
        self.answer(self._X, trial, lambda *_: None)
        seconds = (time.perf_counter() - start) / _TRIAL * n_coalitions
        cells = min(n_coalitions * rows, _ROWS_AT_A_TIME) * columns
        return n_coalitions, cells * 4 / 2**20, seconds

    def _is_constant(self, request: Request) -> bool:
        """Whether no column that is there tells one train row from another."""
        table = np.asarray(part(self._X, request.rows, request.columns), dtype=object)
        return all(len({_hashable(cell) for cell in column}) < 2 for column in table.T)

    def _answer_part(
        self,
        X_test: Any,
        requests: Sequence[tuple[int, Request]],
        done: Callable[[int, np.ndarray], None],
    ) -> None:
        columns = requests[0][1].columns
        settings = dict(self._settings)
        declared = settings.get("categorical_features_indices")
        if declared is not None:
            settings["categorical_features_indices"] = among(columns, declared)
        every_test = part(X_test, np.ones(len(X_test), dtype=bool), columns)
        tables = []
        for _, request in requests:
            X = part(self._X, request.rows, columns)
            test = every_test.iloc[request.test] if hasattr(X, "iloc") else every_test[request.test]
            tables.append((X, self._y_N[request.rows], test))
        for (place, _), out in zip(
            requests, predict_tables(self._patched, tables, **settings), strict=True
        ):
            done(place, np.asarray(out, dtype=np.float64))


def _hashable(cell: Any) -> Any:
    return "missing" if cell is None or cell != cell else cell
