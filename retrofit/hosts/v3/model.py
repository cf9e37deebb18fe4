"""The patched TabPFN v3 model: stock's forward over O-twins, with its promises checked.

Shapes: R rows, B batch, C columns, N train rows, M test rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tabpfn.architectures.tabpfn_v3 import TabPFNV3, TabPFNV3Cache
from torch import Tensor

from retrofit.errors import NonFiniteOutputError, UnsupportedModeError
from retrofit.files.digest import require_digest
from retrofit.hosts.declare import declared
from retrofit.hosts.kv_cache import PresentV3Cache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tabpfn.architectures.interface import PerformanceOptions

    from retrofit.config import RetrofitConfig

# A buffer that stock v3 does not know, so that its strict load refuses a patched state dict.
MARKER = "oretro_format_version"


class OTabPFNV3(TabPFNV3):
    """A TabPFN v3 whose blocks are O-twins."""

    retrofit_config: RetrofitConfig
    stock_trainable: frozenset[str]
    """Parameters that require gradients in the stock host."""

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As ``nn.Module``'s, after checking the tensors against the digest in the settings.

        Raises:
            CheckpointError: a weight differs from what was saved.
        """
        require_digest(state_dict, self.retrofit_config.weights_sha256)
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

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
        variant = self.retrofit_config.variant
        if variant != "closed" and declared() is not None:
            msg = f"variant {variant!r} would read what is declared NULL; patch with 'closed'"
            raise UnsupportedModeError(msg)
        if not (kv_cache is None or kv_cache.is_empty() or isinstance(kv_cache, PresentV3Cache)):
            msg = "the key/value cache was built by a stock model; build it with the patched one"
            raise UnsupportedModeError(msg)
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
        # Stock replaces NaN logits by zeros, which look like a prediction.
        if not torch.isfinite(logits).all():
            msg = (
                f"the patched host ({variant}) emitted NaN or infinite logits "
                f"for {int((~torch.isfinite(logits)).any(-1).sum())} of {logits[..., 0].numel()} "
                "test rows; check the inputs' range, the weights and the inference precision"
            )
            raise NonFiniteOutputError(msg)
        return (output, PresentV3Cache.of(cache)) if return_kv_cache else output
