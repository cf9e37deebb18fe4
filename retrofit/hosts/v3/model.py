"""The patched TabPFN v3 model: stock's forward over O-twins, with its promises checked.

Shapes: R rows, B batch, C columns, N train rows, M test rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tabpfn.architectures.tabpfn_v3 import TabPFNV3, TabPFNV3Cache

from retrofit.hosts.patched_model import PatchedModel
from retrofit.hosts.v3.cache import PresentV3Cache

if TYPE_CHECKING:
    from tabpfn.architectures.interface import PerformanceOptions
    from torch import Tensor


class OTabPFNV3(PatchedModel, TabPFNV3):
    """A TabPFN v3 whose blocks are O-twins."""

    cache_class = PresentV3Cache

    def forward(
        self,
        x: Tensor | dict[str, Tensor],
        y: Tensor | dict[str, Tensor] | None,
        *,
        only_return_standard_out: bool = True,
        categorical_inds: list[list[int]] | None = None,
        performance_options: PerformanceOptions | None = None,
        task_type: str | None = None,
        kv_cache: TabPFNV3Cache | None = None,
        return_kv_cache: bool = False,
        x_is_test_only: bool = False,
    ) -> Any:
        """Stock's forward on ``x`` (R, B, C) and ``y`` (N,) or (N, B): logits (M, B, n_out).

        Raises:
            NonFiniteOutputError: a logit is NaN or infinite.
            UnsupportedModeError: ``kv_cache`` was built by a stock model, or rows or columns are
                declared NULL and this variant would read them.
        """
        self._require_supported(kv_cache)
        result = super().forward(
            x,
            y,
            only_return_standard_out=only_return_standard_out,
            categorical_inds=categorical_inds,
            performance_options=performance_options,
            task_type=task_type,
            kv_cache=kv_cache,
            return_kv_cache=return_kv_cache,
            x_is_test_only=x_is_test_only,
        )
        output, cache = result if return_kv_cache else (result, None)
        logits = output if only_return_standard_out else output["standard"]
        self._require_finite(logits)
        return (output, PresentV3Cache.of(cache)) if return_kv_cache else output
