"""What the closed models of all generations share: how they are told of NULL rows and columns.

Without a declaration, the code that runs is that of variant `full`.

Shapes: R rows, B batch, C columns, N train rows, M test rows.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from retrofit.errors import PresenceError, UnsupportedModeError
from retrofit.hosts.declare import Presence, calling, current_call
from retrofit.hosts.kv_cache import ClosedCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from tabpfn.architectures.interface import PerformanceOptions

    from retrofit.config import RetrofitConfig


class ClosedModel:
    """Mixin before a patched model class: obeys the presence declared around a call."""

    retrofit_config: RetrofitConfig
    closed_cache_class: type[Any]
    """Caches that remember what was NULL when they were built."""
    cache_means_test_rows: ClassVar[bool] = False
    """Whether stock takes every row beside a cache for a test row, even without being told so."""
    train_statistics: Callable[[Tensor, int], dict[str, Tensor]]
    """What the columns of a table (R, B, C) with so many train rows are standardised by (B, C), as
    far as it must be known from before NULL rows and columns were put in."""

    def _told(
        self,
        x_RBC: Tensor,
        y_NB: Tensor,
        cells_RBC: Tensor,  # noqa: ARG002
        rows_NB: Tensor,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """Features and targets, 0 where NULL, as stock's forward is to pass them on.

        Meanwhile the call's presence has a line for every batch element.
        """
        return x_RBC, y_NB

    def _remembering(self, cache: Any, y_NB: Tensor) -> Any:  # noqa: ARG002
        """A cache that was built from targets with NULL rows, for rows that are there."""
        return cache

    def forward(
        self,
        x: Tensor | dict[str, Tensor],
        y: Tensor | dict[str, Tensor] | None,
        task_type: str | None = None,
        *,
        only_return_standard_out: bool = True,
        categorical_inds: list[list[int]] | None = None,
        performance_options: PerformanceOptions | None = None,
        kv_cache: Any = None,
        return_kv_cache: bool = False,
        x_is_test_only: bool = False,
    ) -> Any:
        """As ``PatchedModel.forward``; logits of NULL test rows are NaN, and of these alone.

        The full output (``only_return_standard_out=False``) of a call with a declaration flags
        them too: ``test_present`` (M, B). A cache built with NULL rows or columns remembers them.

        Raises:
            PresenceError: the declaration does not fit the call, or contradicts the cache.
            UnsupportedModeError: presence is forced to 1, so nothing can be NULL; or gradient
                checkpointing was asked for.
            NonFiniteOutputError: a logit of a present row is NaN or infinite.
        """
        options: dict[str, Any] = {
            "only_return_standard_out": only_return_standard_out,
            "categorical_inds": categorical_inds,
            "performance_options": performance_options,
            "task_type": task_type,
            "kv_cache": kv_cache,
            "return_kv_cache": return_kv_cache,
            "x_is_test_only": x_is_test_only,
        }
        x_RBC, y_N = self._tensors(x, y)
        insertion = current_call().insertion
        if insertion is None:
            return self._forward(x_RBC, y_N, options)
        assert y_N is not None, "tabpfn's engines always hand the targets over"
        filled = insertion.fill(x_RBC, y_N, self.train_statistics, x_is_test_only=x_is_test_only)
        with calling(filled.call):
            result = self._forward(filled.x_RBC, filled.y_N, options)
        if not return_kv_cache:
            return insertion.given_rows(result, filled.test)
        return insertion.given_rows(result[0], filled.test), result[1]

    def _forward(self, x_RBC: Tensor, y: Tensor | None, options: dict[str, Any]) -> Any:
        """``forward`` on a table in which every declared row and column has its place."""
        call = current_call()
        kv_cache, return_kv_cache = options["kv_cache"], options["return_kv_cache"]
        performance_options = options["performance_options"]
        built = kv_cache if kv_cache is not None and not kv_cache.is_empty() else None
        remembered = isinstance(built, ClosedCache) and built.columns is not None
        presence = call.presence or (Presence() if remembered else None)
        if presence is None:
            result = super().forward(x_RBC, y, **options)  # type: ignore[misc]
            if not return_kv_cache:
                return result
            return result[0], self.closed_cache_class.of(result[1])
        if self.retrofit_config.presence == "one":
            msg = "presence is forced to 1 in this host, so no row or column can be NULL"
            raise UnsupportedModeError(msg)
        if performance_options is not None and performance_options.force_recompute_layer:
            msg = "gradient checkpointing (force_recompute_layer) does not know NULL rows"
            raise UnsupportedModeError(msg)

        y_NB = _targets(y, x_RBC.shape[1])
        x_is_test_only = options["x_is_test_only"] or (
            built is not None and self.cache_means_test_rows
        )
        train_BN, test_BM, columns_BC = self._masks(presence, built, x_RBC, y_NB, x_is_test_only)
        rows_BR = test_BM if x_is_test_only else torch.cat((train_BN, test_BM), dim=1)
        cells_RBC = (rows_BR[:, :, None] & columns_BC[:, None]).transpose(0, 1)
        x_RBC, y_NB = x_RBC.where(cells_RBC, 0.0), y_NB.where(train_BN.T, 0.0)
        whole = Presence(train_BN, test_BM, columns_BC)
        with calling(dataclasses.replace(call, presence=whole)):
            result = super().forward(  # type: ignore[misc]
                *self._told(x_RBC, y_NB, cells_RBC, train_BN.T), **options
            )
            output, cache = result if return_kv_cache else (result, None)
            if cache is not None and built is None:
                cache = self._remembering(cache, y_NB)
        test_MB = test_BM.T
        if options["only_return_standard_out"]:
            output = output.masked_fill(~test_MB[..., None], torch.nan)
        else:
            logits = output["standard"].masked_fill(~test_MB[..., None], torch.nan)
            output = {**output, "standard": logits, "test_present": test_MB}
        if not return_kv_cache:
            return output
        return output, self.closed_cache_class.of(cache, train_rows=train_BN, columns=columns_BC)

    def _tensors(
        self, x: Tensor | dict[str, Tensor], y: Tensor | dict[str, Tensor] | None
    ) -> tuple[Tensor, Tensor | None]:
        """Features (R, B, C) and targets from what stock accepts."""
        return x["main"] if isinstance(x, dict) else x, y["main"] if isinstance(y, dict) else y

    def _masks(
        self, presence: Presence, built: Any, x_RBC: Tensor, y_NB: Tensor, x_is_test_only: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Train rows (B, N), test rows (B, M), columns (B, C): as declared, and as cached."""
        rows, batch, columns = x_RBC.shape
        train = y_NB.shape[0]
        test = rows if x_is_test_only else rows - train
        train_BN, test_BM, columns_BC = (
            mask.to(x_RBC.device) for mask in presence.masks(batch, train, test, columns)
        )
        if built is None:
            return train_BN, test_BM, columns_BC
        cached_BN, cached_BC = self.closed_cache_class.of(built).masks(train, columns)
        for name, given, cached in (
            ("train_rows", presence.train_rows, cached_BN),
            ("columns", presence.columns, cached_BC),
        ):
            if given is not None and not torch.equal(
                given.to(cached.device).expand_as(cached), cached
            ):
                msg = f"{name} differ from those that the cache was built with; leave them out"
                raise PresenceError(msg)
        return cached_BN, test_BM, cached_BC


def _targets(y: Tensor | None, batch: int) -> Tensor:
    """Targets (N, B) from (N,), (N, B) or (N, B, 1).

    Raises:
        PresenceError: there is no train row.
    """
    if y is None or not y.shape[0]:
        msg = "rows or columns are declared NULL, and there is no train row at all"
        raise PresenceError(msg)
    if y.dim() == 3:
        y = y.squeeze(-1)
    return y[:, None].expand(-1, batch) if y.dim() == 1 else y
