"""NULL rows and columns put back into the prepared tables that an estimator hands to its model.

An estimator prepares each ensemble member's table from the present rows and columns alone. Rows
stay rows, so NULL train rows return to the places they were declared at. Members shuffle, add and
drop columns, so a NULL column has no place among the prepared ones: it is put after them, like
the NULL test rows.

Shapes: R rows, B batch, C columns, N train rows, M test rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from retrofit.hosts.declare import Call, Presence

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def fill(
        self,
        x_RBC: Tensor,
        y_N: Tensor,
        statistics_of: Callable[[Tensor, int], Statistics],
        *,
        x_is_test_only: bool,
    ) -> Filled:
        """The table with NULL rows and columns in it, to be standardised as it is without them.

        ``statistics_of`` a table and its number of train rows are (B, C) each.
        """
        given = 0 if x_is_test_only else y_N.shape[0]
        test = x_RBC.shape[0] - given
        test_M = torch.tensor([True] * test + [False] * self.test_rows, dtype=torch.bool)
        columns_C = torch.tensor([True] * x_RBC.shape[2] + [False] * self.columns)
        rows_R = test_M if x_is_test_only else torch.cat((self.train_rows, test_M))

        filled_RBC = x_RBC.new_full((len(rows_R), x_RBC.shape[1], len(columns_C)), torch.nan)
        filled_RBC[rows_R, :, : x_RBC.shape[2]] = x_RBC
        filled_N = y_N.new_full((len(self.train_rows), *y_N.shape[1:]), torch.nan)
        filled_N[self.train_rows] = y_N
        fitted = statistics_of(x_RBC, given) if given else {}
        # What stands in a NULL column is NULL whatever it is divided by.
        statistics = {k: pad(v_BC, (0, self.columns), value=1.0) for k, v_BC in fitted.items()}
        presence = Presence(train_rows=self.train_rows, test_rows=test_M, columns=columns_C)
        return Filled(filled_RBC, filled_N, Call(presence=presence, statistics=statistics), test)

    def given_rows(self, output: Any, test: int) -> Any:
        """What a model's output says of the rows that the estimator's table has."""
        if isinstance(output, Tensor):
            return output[:test]
        kept = {name: output[name][:test] for name in ("standard", "test_embeddings")}
        if "train_embeddings" in output:
            kept["train_embeddings"] = output["train_embeddings"][self.train_rows]
        return kept


@dataclass(frozen=True, eq=False)
class Filled:
    """A table with NULL rows and columns in it."""

    x_RBC: Tensor
    y_N: Tensor
    call: Call
    """What the model is told of the table."""
    test: int
    """Number of test rows that are there; they come first among the test rows."""
