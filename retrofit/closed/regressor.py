"""The estimator of a closed host: NULL rows and columns declared on the raw table.

Shapes: N train rows, M test rows, C columns.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from tabpfn import TabPFNRegressor
from torch import Tensor

from retrofit.closed.parts import among, part
from retrofit.errors import PresenceError, UnsupportedModeError
from retrofit.hosts.declare import Call, Presence, calling, declared
from retrofit.hosts.insertion import Insertion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager


class ClosedRegressor(TabPFNRegressor):  # type: ignore[misc]
    """A ``TabPFNRegressor`` whose tables may hold rows and columns that are declared NULL.

    The estimator prepares its ensemble members from the present rows and columns alone, so that
    nothing in a NULL place is read. The NULL ones then go through the model as NULL tokens.
    Without a declaration it is a ``TabPFNRegressor``.
    """

    categorical_features_indices: Sequence[int] | None

    def fit(self, X: Any, y: Any, *, presence: Presence | None = None) -> ClosedRegressor:
        """Fit on X (N, C) and y (N,), of which ``presence`` declares the rows and columns.

        ``categorical_features_indices`` are of the raw table too, its NULL columns counted.

        Raises:
            PresenceError: the declaration does not fit, says something of test rows, or was made
                for the bare model (``retrofit.declaring``).
            UnsupportedModeError: the estimator runs on several devices.
        """
        _refuse_model_declaration()
        self.presence_ = None
        if presence is None:
            super().fit(X, y)
            return self
        if presence.test_rows is not None:
            msg = "test rows are declared when they are predicted: predict(X, test_rows=...)"
            raise PresenceError(msg)
        rows, columns = np.shape(X)
        train_1N, _, columns_1C = presence.masks(1, rows, 0, columns)
        train_N, columns_C = train_1N[0], columns_1C[0]
        with _inserting(train_N, columns_C), self._categories_among(columns_C):
            super().fit(part(X, train_N, columns_C), part(y, train_N))
        self._refuse_several_devices()
        self.presence_ = Presence(train_rows=train_N, columns=columns_C)
        return self

    def predict(
        self,
        X: Any,
        *,
        output_type: Any = "mean",
        quantiles: list[float] | None = None,
        test_rows: Any = None,
    ) -> Any:
        """As ``TabPFNRegressor.predict`` on X (M, C); ``test_rows`` (M,) is False for NULL ones.

        X has the columns of the raw table, the NULL ones too. Every array of the result holds
        NaN where ``test_rows`` is False; a ``main`` or ``full`` result flags the rows as well:
        ``test_present``.

        Raises:
            PresenceError: ``test_rows`` does not fit or leaves no row to predict, or a declaration
                was made for the bare model.
            UnsupportedModeError: the estimator runs on several devices.
        """
        _refuse_model_declaration()
        asked = {"output_type": output_type, "quantiles": quantiles}
        fitted = getattr(self, "presence_", None)
        if test_rows is None and fitted is None:
            return super().predict(X, **asked)
        train_N, test_M, columns_C = self._masks(X, test_rows)
        if not test_M.any():
            msg = "test_rows leaves no row to predict"
            raise PresenceError(msg)
        with _inserting(train_N, columns_C, test_M):
            result = super().predict(part(X, test_M, columns_C), **asked)
        if not isinstance(result, dict):
            return _spread(result, test_M)
        spread = {name: _spread(value, test_M) for name, value in result.items()}
        return {**spread, "test_present": test_M.numpy()}

    def get_embeddings(self, X: Any, data_source: Literal["train", "test"] = "test") -> Any:
        """As ``TabPFNRegressor.get_embeddings`` on X (M, C) with the columns of the raw table.

        Embeddings of train rows are those of the present ones, in their order.

        Raises:
            PresenceError: X does not fit, or a declaration was made for the bare model.
            UnsupportedModeError: the estimator runs on several devices.
        """
        _refuse_model_declaration()
        if getattr(self, "presence_", None) is None:
            return super().get_embeddings(X, data_source)
        train_N, test_M, columns_C = self._masks(X, None)
        with _inserting(train_N, columns_C, test_M):
            return super().get_embeddings(part(X, test_M, columns_C), data_source)

    def _masks(self, X: Any, test_rows: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Presence of train rows (N,), of the rows of X (M,) and of its columns (C,)."""
        self._refuse_several_devices()
        fitted = getattr(self, "presence_", None) or Presence()
        declared = Presence(fitted.train_rows, test_rows, fitted.columns)
        train = self.n_train_samples_ if fitted.train_rows is None else len(fitted.train_rows)
        train_1N, test_1M, columns_1C = declared.masks(1, train, *np.shape(X))
        return train_1N[0], test_1M[0], columns_1C[0]

    @contextmanager
    def _categories_among(self, columns_C: Tensor) -> Iterator[None]:
        """Count the declared categorical columns among the present ones, as ``_part`` does."""
        declared = self.categorical_features_indices
        self.categorical_features_indices = among(columns_C, declared)
        try:
            yield
        finally:
            self.categorical_features_indices = declared

    def _refuse_several_devices(self) -> None:
        if len(self.devices_) > 1:
            msg = (
                f"the estimator runs on {len(self.devices_)} devices, one thread each, and a "
                "declaration holds in one thread; give one device"
            )
            raise UnsupportedModeError(msg)


def _refuse_model_declaration() -> None:
    """Rows that only the model knows to be NULL would be read by the preprocessing before it."""
    if declared() is not None:
        msg = (
            "a declaration for the bare model is active (retrofit.declaring); tell the estimator "
            "itself: fit(X, y, presence=...) and predict(X, test_rows=...)"
        )
        raise PresenceError(msg)


def _inserting(
    train_N: Tensor, columns_C: Tensor, test_M: Tensor | None = None
) -> AbstractContextManager[None]:
    """Put the NULL rows and columns into every table that the model is called with."""
    null_rows = 0 if test_M is None else int((~test_M).sum())
    insertion = Insertion(train_N, test_rows=null_rows, columns=int((~columns_C).sum()))
    return calling(Call(insertion=insertion))


def _spread(value: Any, test_M: Tensor) -> Any:
    """Arrays over the present test rows as arrays over all, NaN in between; others as they are."""
    if isinstance(value, list):
        return [_spread(part, test_M) for part in value]
    if isinstance(value, Tensor):
        spread = value.new_full((len(test_M), *value.shape[1:]), torch.nan)
        spread[test_M.to(value.device)] = value
        return spread
    if isinstance(value, np.ndarray):
        array = np.full((len(test_M), *value.shape[1:]), np.nan)
        array[test_M.numpy()] = value
        return array
    return value
