"""The estimator of a closed host: NULL rows and columns declared on the raw table.

Shapes: N train rows, M test rows, C columns.
"""

from __future__ import annotations

import copy
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from scipy.sparse import issparse
from tabpfn.validation import extract_input_shape
from torch import Tensor

from retrofit.closed.parts import among, part
from retrofit.errors import PresenceError, UnsupportedModeError
from retrofit.hosts.declare import Call, Presence, calling, declared
from retrofit.hosts.insertion import Insertion
from retrofit.hosts.regressor import HostRegressor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager


class ClosedRegressor(HostRegressor):
    """A ``TabPFNRegressor`` whose tables may hold rows and columns that are declared NULL.

    The estimator prepares its ensemble members from the present rows and columns alone, so that
    nothing in a NULL place is read. The NULL ones then go through the model as NULL tokens.
    Without a declaration it is a ``TabPFNRegressor``.
    """

    categorical_features_indices: Sequence[int] | None
    presence_: Presence | None
    """What the last fit declared."""

    def fit(self, X: Any, y: Any, *, presence: Presence | None = None) -> ClosedRegressor:
        """Fit on X (N, C) and y (N,), of which ``presence`` declares the rows and columns.

        ``categorical_features_indices``, ``n_features_in_`` and ``feature_names_in_`` are of the
        raw table, its NULL columns counted. A fit that is refused leaves the estimator as it was.

        Raises:
            PresenceError: the declaration does not fit X and y, says something of test rows, or was
                made for the bare model (``retrofit.declaring``); or X is sparse or no table.
            UnsupportedModeError: the estimator runs on several devices, draws train rows, or tunes
                itself.
        """
        _refuse_model_declaration()
        before = dict(self.__dict__)
        try:
            self.presence_ = None
            if presence is None:
                super().fit(X, y)
            else:
                self._fit_declared(X, y, presence)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit_declared(self, X: Any, y: Any, presence: Presence) -> None:
        if not isinstance(presence, Presence):
            msg = f"presence is a retrofit.Presence, not a {type(presence).__name__}"
            raise PresenceError(msg)
        if presence.test_rows is not None:
            msg = "test rows are declared when they are predicted: predict(X, test_rows=...)"
            raise PresenceError(msg)
        rows, columns = _shape(X)
        if np.shape(y)[:1] != (rows,):
            msg = f"X has {rows} rows and y has shape {np.shape(y)}; every row needs a target"
            raise PresenceError(msg)
        train_1N, _, columns_1C = presence.masks(1, rows, 0, columns)
        train_N, columns_C = train_1N[0], columns_1C[0]
        if self.tuning_config is not None:
            msg = "tuning_config fits on parts of the train rows, which a declaration does not know"
            raise UnsupportedModeError(f"{msg}; leave it out, or fit without NULL rows and columns")
        self.__dict__.pop("inference_config_", None)
        self.get_inference_config()
        self._require_declarable()
        with _inserting(train_N, columns_C), self._categories_among(columns_C):
            super().fit(part(X, train_N, columns_C), part(y, train_N))
        self.feature_names_in_, self.n_features_in_ = extract_input_shape(X)
        self.presence_ = Presence(train_rows=train_N, columns=columns_C)

    def fit_with_differentiable_input(self, X: Tensor, y: Tensor) -> ClosedRegressor:
        """As ``TabPFNRegressor``'s; an earlier declaration is forgotten."""
        self.presence_ = None
        super().fit_with_differentiable_input(X, y)
        return self

    def fit_from_preprocessed(self, *args: Any, **kwargs: Any) -> ClosedRegressor:
        """As ``TabPFNRegressor``'s; an earlier declaration is forgotten."""
        self.presence_ = None
        super().fit_from_preprocessed(*args, **kwargs)
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
            UnsupportedModeError: the estimator runs on several devices, or draws train rows.
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
            present = self._of_present(columns_C)
            result = HostRegressor.predict(present, part(X, test_M, columns_C), **asked)
        if not isinstance(result, dict):
            return _spread(result, test_M)
        spread = {name: _spread(value, test_M) for name, value in result.items()}
        return {**spread, "test_present": test_M.numpy()}

    def get_embeddings(self, X: Any, data_source: Literal["train", "test"] = "test") -> Any:
        """As ``TabPFNRegressor.get_embeddings`` on X (M, C) with the columns of the raw table.

        Embeddings of train rows are those of the present ones, in their order.

        Raises:
            PresenceError: X does not fit, or a declaration was made for the bare model.
            UnsupportedModeError: the estimator runs on several devices, or draws train rows.
        """
        _refuse_model_declaration()
        if getattr(self, "presence_", None) is None:
            return super().get_embeddings(X, data_source)
        train_N, test_M, columns_C = self._masks(X, None)
        with _inserting(train_N, columns_C, test_M):
            present, X_present = self._of_present(columns_C), part(X, test_M, columns_C)
            return HostRegressor.get_embeddings(present, X_present, data_source)

    def _masks(self, X: Any, test_rows: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Presence of train rows (N,), of the rows of X (M,) and of its columns (C,)."""
        self._require_declarable()
        shape = _shape(X)
        fitted = getattr(self, "presence_", None) or Presence()
        declared = Presence(fitted.train_rows, test_rows, fitted.columns)
        train = self.n_train_samples_ if fitted.train_rows is None else len(fitted.train_rows)
        train_1N, test_1M, columns_1C = declared.masks(1, train, *shape)
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

    def _of_present(self, columns_C: Tensor) -> ClosedRegressor:
        """This estimator as it was prepared: its features are the present ones alone."""
        prepared = copy.copy(self)
        prepared.n_features_in_ = int(columns_C.sum())
        if self.feature_names_in_ is not None:
            prepared.feature_names_in_ = self.feature_names_in_[columns_C.numpy()]
        return prepared

    def _require_declarable(self) -> None:
        """Refuse what would show the model other train rows than the declared ones.

        Raises:
            UnsupportedModeError: it would.
        """
        if len(self.devices_) > 1:
            msg = (
                f"the estimator runs on {len(self.devices_)} devices, one thread each, and a "
                "declaration holds in one thread; give one device"
            )
            raise UnsupportedModeError(msg)
        drawn = self.inference_config_.SUBSAMPLE_SAMPLES
        if drawn is not None:
            msg = (
                f"SUBSAMPLE_SAMPLES={drawn!r} draws train rows for each ensemble member, whatever "
                "its SAMPLE_SUBSAMPLING_METHOD, and NULL rows have no place among them; leave it "
                "out, or declare nothing"
            )
            raise UnsupportedModeError(msg)


def _shape(X: Any) -> tuple[int, int]:
    """Rows and columns of a table.

    Raises:
        PresenceError: it is sparse, or no table.
    """
    try:
        shape = np.shape(X)
    except ValueError:
        shape = ()
    if issparse(X) or len(shape) != 2:
        kind = "sparse" if issparse(X) else f"of shape {shape}"
        msg = (
            f"X is a {type(X).__name__}, {kind}; a declaration needs a dense table (rows, columns)"
        )
        raise PresenceError(msg)
    rows, columns = shape
    return rows, columns


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
