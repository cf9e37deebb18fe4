"""NULL rows and columns put back into the prepared tables that an estimator hands to its model.

An estimator prepares each ensemble member's table from the present rows and columns alone. Rows
stay rows, so NULL train rows return to the places they were declared at. Members shuffle, add and
drop columns, so a NULL column has no place among the prepared ones: it is put after them, like
the NULL test rows.

Shapes: R rows, B batch, C columns, N train rows, M test rows.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from retrofit.hosts.declare import Presence, declaring, standardising_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from retrofit.hosts.declare import Statistics


@dataclass(frozen=True, eq=False)
class Insertion:
    """What is put into every table that a closed model is called with."""

    train_rows: Tensor
    """(N,) over all train rows: True where the estimator's table has one, False for a NULL one."""
    test_rows: int = 0
    """Number of NULL test rows."""
    columns: int = 0
    """Number of NULL columns."""

    def run(
        self,
        forward: Callable[..., Any],
        statistics_of: Callable[[Tensor, int], Statistics],
        x: Tensor | dict[str, Tensor],
        y: Tensor | dict[str, Tensor] | None,
        options: Mapping[str, Any],
    ) -> Any:
        """Call ``forward`` on the filled-up table, and return what it says of the given rows.

        Its columns are standardised by ``statistics_of`` the table at hand and its train rows.
        """
        x_RBC = x["main"] if isinstance(x, dict) else x
        y_N = y["main"] if isinstance(y, dict) else y
        assert y_N is not None, "tabpfn's engines always hand the targets over"
        given = 0 if options["x_is_test_only"] else y_N.shape[0]
        test = x_RBC.shape[0] - given
        test_M = torch.tensor([True] * test + [False] * self.test_rows, dtype=torch.bool)
        columns_C = torch.tensor([True] * x_RBC.shape[2] + [False] * self.columns)
        rows_R = test_M if options["x_is_test_only"] else torch.cat((self.train_rows, test_M))

        filled_RBC = x_RBC.new_full((len(rows_R), x_RBC.shape[1], len(columns_C)), torch.nan)
        filled_RBC[rows_R, :, : x_RBC.shape[2]] = x_RBC
        filled_N = y_N.new_full((len(self.train_rows), *y_N.shape[1:]), torch.nan)
        filled_N[self.train_rows] = y_N
        presence = Presence(train_rows=self.train_rows, test_rows=test_M, columns=columns_C)
        fitted = statistics_of(x_RBC, given) if given else {}
        # What stands in a NULL column is NULL whatever it is divided by.
        statistics = {k: pad(v_BC, (0, self.columns), value=1.0) for k, v_BC in fitted.items()}
        with inserting(None), declaring(presence), standardising_by(statistics):
            result = forward(filled_RBC, filled_N, **options)
        if not options["return_kv_cache"]:
            return self._of_given_rows(result, test)
        return self._of_given_rows(result[0], test), result[1]

    def _of_given_rows(self, output: Any, test: int) -> Any:
        if isinstance(output, Tensor):
            return output[:test]
        kept = {name: output[name][:test] for name in ("standard", "test_embeddings")}
        if "train_embeddings" in output:
            kept["train_embeddings"] = output["train_embeddings"][self.train_rows]
        return kept


_active: ContextVar[Insertion | None] = ContextVar("oretro_insertion", default=None)


def active_insertion() -> Insertion | None:
    """The insertion that is active in this context."""
    return _active.get()


@contextmanager
def inserting(insertion: Insertion | None) -> Iterator[None]:
    """Put NULL rows and columns into every table that a closed model sees inside the block."""
    token = _active.set(insertion)
    try:
        yield
    finally:
        _active.reset(token)
