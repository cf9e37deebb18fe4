"""Many answers of one prepared table, each as if some of its rows and columns were not there.

Two meanings of removal, which never mix. ``pipeline``: the whole estimator is prepared on what
remains, as a refit would; only this is "as if it had never been there". ``model``: features are
prepared once on the whole table; rows and columns are then taken away from the model, and the
target's mean and scale are those of the remaining rows.

Shapes: K coalitions, N train rows, M test rows, C columns, G groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from sklearn.utils import Bunch

from retrofit.closed.coalition_cache import CoalitionCache
from retrofit.closed.model_scope import ModelScope
from retrofit.closed.pipeline_scope import PipelineScope
from retrofit.closed.request import Request
from retrofit.errors import PresenceError, VariantError
from retrofit.patching.target_range import target_fault

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from retrofit.patching.patch import Patched

Scope: TypeAlias = Literal["model", "pipeline"]
SCOPES: tuple[Scope, ...] = get_args(Scope)


@dataclass(frozen=True)
class Estimate:
    """What answering coalitions will take."""

    passes: int
    memory_mb: float
    """Of the largest pass's inputs and logits, in MiB."""
    seconds: float


class Removable:
    """A table on which a closed host answers for any coalition of its rows and columns.

    Args:
        patched: A host of variant ``closed``.
        X: Train features (N, C).
        y: Train targets (N,), finite numbers.
        scope: ``model`` or ``pipeline``; see the module. It is recorded in every result.
        row_groups: A label per row (N,): rows of one label are there or gone together, and masks
            of rows are over the labels in their sorted order.
        column_groups: Likewise for columns (C,).
        cache: A folder that answers are kept in, from which a stopped run goes on; None to keep
            them in memory alone.
        settings: As for ``patched.regressor``.

    Raises:
        UnsupportedModeError: the host is not closed, or a setting cannot be served.
        VariantError: there is no such scope.
        PresenceError: ``y`` or groups do not fit ``X``, or no host can be fitted on ``y``.
    """

    def __init__(
        self,
        patched: Patched,
        X: Any,
        y: ArrayLike,
        scope: Scope = "model",
        row_groups: ArrayLike | None = None,
        column_groups: ArrayLike | None = None,
        cache: str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> None:
        if scope not in SCOPES:
            msg = f"there is no scope {scope!r}; choose one of {', '.join(SCOPES)}"
            raise VariantError(msg)
        self.scope: Scope = scope
        self._X: Any = _copied(X)
        self._y = np.array(y, dtype=np.float64)
        if self._X.ndim != 2 or self._y.shape != self._X.shape[:1] or not len(self._y):
            msg = f"X {self._X.shape} and y {self._y.shape} must be (N, C) and (N,), N at least 1"
            raise PresenceError(msg)
        fault = "" if np.isfinite(self._y).all() else "y holds values that are not finite"
        if fault := fault or target_fault(self._y, "y"):
            raise PresenceError(fault)
        self.rows = _Axis.of("rows", self._X.shape[0], row_groups)
        self.columns = _Axis.of("columns", self._X.shape[1], column_groups)
        settings = {"random_state": 0, **settings}
        kind = ModelScope if scope == "model" else PipelineScope
        self._scope: ModelScope | PipelineScope = kind(patched, self._X, self._y, settings)
        self._cache = CoalitionCache(cache, (scope, patched, self._X, self._y, settings))

    def predict(
        self, X_test: Any, *, rows: ArrayLike | None = None, columns: ArrayLike | None = None
    ) -> np.ndarray:
        """Predicted means (K, M) of test rows (M, C) for coalitions, in units of the target.

        Args:
            X_test: The columns of the table, those of absent ones too, which are not read.
            rows: (K, N) or (K, G), True for what is there; None for all rows.
            columns: (K, C) or (K, G), likewise; K is that of ``rows``, or either is None.

        A coalition without rows answers with the mean of all train targets, one without columns
        with that of its own rows.

        Raises:
            PresenceError: a mask is not boolean or does not fit.
        """
        rows_KN, columns_KC = self._masks(rows, columns)
        X_test = _like(self._X, _copied(X_test))
        if X_test.ndim != 2 or X_test.shape[1] != self._X.shape[1]:
            msg = f"X_test {X_test.shape} must have the table's {self._X.shape[1]} columns"
            raise PresenceError(msg)
        everything = np.arange(len(X_test))
        requests = [
            Request(own_rows, own_columns, everything)
            for own_rows, own_columns in zip(rows_KN, columns_KC, strict=True)
        ]
        answers_KM: np.ndarray = np.empty((len(requests), len(X_test)))
        for answer_M, given_M in zip(answers_KM, self._answers(X_test, requests), strict=True):
            answer_M[:] = given_M
        return answers_KM

    def leave_one_out(self, X_test: Any = None) -> Bunch:
        """Every row, or group of rows, predicted by the table without it.

        Returns a ``Bunch``: ``held_out`` (N,), ``residuals`` (N,) = target - held out,
        ``predictions`` (G, M) of ``X_test`` by the table without each group (None without
        ``X_test``), and the ``scope``.
        """
        rows_GN = ~np.eye(self.rows.groups, dtype=bool)[:, self.rows.group_of]
        every_column = np.ones(self.columns.size, dtype=bool)
        requests = [Request(rows_N, every_column, np.flatnonzero(~rows_N)) for rows_N in rows_GN]
        held_out_N = np.empty(len(self._y))
        for request, answer in zip(requests, self._answers(self._X, requests), strict=True):
            held_out_N[request.test] = answer
        predictions = None
        if X_test is not None:
            predictions = self.predict(X_test, rows=~np.eye(self.rows.groups, dtype=bool))
        return Bunch(
            held_out=held_out_N,
            residuals=self._y - held_out_N,
            predictions=predictions,
            scope=self.scope,
        )

    def estimate(self, n_coalitions: int, test_rows: int = 1) -> Estimate:
        """Passes, memory and seconds of so many coalitions of half the rows, from a short trial."""
        return Estimate(*self._scope.estimate(n_coalitions, test_rows))

    @property
    def answered(self) -> int:
        """How many coalitions were answered so far, those that were known not counted again."""
        return self._cache.computed

    @property
    def target(self) -> np.ndarray:
        """A copy of the train targets (N,)."""
        copied: np.ndarray = self._y.copy()
        return copied

    def _masks(
        self, rows: ArrayLike | None, columns: ArrayLike | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows (K, N) and columns (K, C) of every coalition, as copies."""
        own = [axis.expanded(mask) for axis, mask in ((self.rows, rows), (self.columns, columns))]
        counts = {len(mask) for mask in own if mask is not None} or {1}
        if len(counts) > 1:
            msg = f"rows and columns are masks of {' and '.join(map(str, counts))} coalitions"
            raise PresenceError(msg)
        count = counts.pop()
        filled = [
            np.ones((count, axis.size), dtype=bool) if mask is None else mask
            for axis, mask in zip((self.rows, self.columns), own, strict=True)
        ]
        return filled[0], filled[1]

    def _answers(self, X_test: Any, requests: Sequence[Request]) -> list[np.ndarray]:
        return self._cache.answers(X_test, requests, self._compute)

    def _compute(
        self, X_test: Any, requests: Sequence[Request], done: Callable[[int, np.ndarray], None]
    ) -> None:
        asked: list[int] = []
        for place, request in enumerate(requests):
            if request.rows.any() and request.columns.any():
                asked.append(place)
                continue
            mean = self._y[request.rows].mean() if request.rows.any() else self._y.mean()
            done(place, np.full(len(request.test), mean))
        self._scope.answer(
            X_test, [requests[place] for place in asked], lambda at, out: done(asked[at], out)
        )


@dataclass(frozen=True, eq=False)
class _Axis:
    """Rows or columns, and which of them go together."""

    name: str
    size: int
    groups: int
    group_of: np.ndarray

    @classmethod
    def of(cls, name: str, size: int, labels: ArrayLike | None) -> _Axis:
        if labels is None:
            return cls(name, size, size, np.arange(size))
        values = np.asarray(labels)
        if values.shape != (size,):
            msg = f"groups of {name} must be one label each, ({size},), not {values.shape}"
            raise PresenceError(msg)
        known, group_of = np.unique(values, return_inverse=True)
        return cls(name, size, len(known), group_of)

    def expanded(self, mask: ArrayLike | None) -> np.ndarray | None:
        """A mask over groups (K, G) as one over members (K, size), copied."""
        if mask is None:
            return None
        given = np.atleast_2d(np.asarray(mask))
        if given.dtype != np.bool_ or given.ndim != 2 or given.shape[1] != self.groups:
            msg = (
                f"{self.name} must be boolean (K, {self.groups}), True for what is there; got "
                f"{given.dtype} {given.shape}"
            )
            raise PresenceError(msg)
        expanded: np.ndarray = given[:, self.group_of].copy()
        return expanded


def _like(table: Any, X_test: Any) -> Any:
    """Test rows in the kind of container that the table is in."""
    if hasattr(table, "iloc") == hasattr(X_test, "iloc"):
        return X_test
    if hasattr(X_test, "iloc"):
        return X_test.to_numpy()
    if X_test.ndim != 2 or X_test.shape[1] != table.shape[1]:
        return X_test  # refused by the caller
    return type(table)(X_test, columns=table.columns).infer_objects()


def _copied(table: Any) -> Any:
    return table.copy() if hasattr(table, "iloc") else np.array(table)
