"""Many tables in few forward passes: padded with NULL rows and columns, predicted as if alone.

Each table is prepared and its prediction assembled by its own estimator. In between, the model
inputs that the estimators' engines would ask for one after the other are padded to the sizes of a
few buckets and run together.

Shapes: R rows, B tables of a bucket, C columns, N train rows, M test rows.
"""

from __future__ import annotations

import copy
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from retrofit.closed.padded_passes import run_calls
from retrofit.closed.recording import Desk, recording_regressor
from retrofit.errors import RetrofitError, TableError, UnsupportedModeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike

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
    template, recorder, model = recording_regressor(patched, settings)
    asked = {"output_type": output_type, "quantiles": quantiles}
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
            desks.append(Desk(regressor, X_test, asked))
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
