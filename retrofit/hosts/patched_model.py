"""What the patched models of all generations share: their settings, and the promises they check.

Shapes: R rows, B batch, C columns, N train rows, M test rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from retrofit.errors import NonFiniteOutputError, UnsupportedModeError
from retrofit.files.seal import require_weights
from retrofit.hosts.declare import declared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tabpfn.architectures.interface import PerformanceOptions
    from torch import Tensor

    from retrofit.config import RetrofitConfig
    from retrofit.hosts.gates import Gates

MARKER = "oretro_format_version"
"""A buffer that no stock model knows, so that its strict load refuses a patched state dict."""


class PatchedModel:
    """Mixin before a stock model class; ``Generation.swap`` sets its attributes."""

    retrofit_config: RetrofitConfig
    stock_trainable: frozenset[str]
    """Parameters that require gradients in the stock host."""
    gates: Gates
    """Gates of the sites that belong to the model itself."""
    cache_class: type[Any]
    """Key/value caches that hold presence; others were built by a stock model."""

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
        """Stock's forward on ``x`` (R, B, C) and ``y`` (N,) or (N, B): logits (M, B, n_out).

        Raises:
            NonFiniteOutputError: a logit is NaN or infinite.
            UnsupportedModeError: ``kv_cache`` was built by a stock model, ``task_type`` is not
                served, or rows or columns are declared NULL and this variant would read them.
        """
        self._require_supported(kv_cache, task_type)
        result = super().forward(  # type: ignore[misc]
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
        return (output, self.cache_class.of(cache)) if return_kv_cache else output

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As ``nn.Module``'s, after checking the tensors against the digest in the settings.

        Raises:
            CheckpointError: a weight differs from what was saved.
        """
        require_weights(state_dict, self.retrofit_config.weights_sha256)
        return super().load_state_dict(state_dict, strict=strict, assign=assign)  # type: ignore[misc]

    def _require_supported(self, kv_cache: Any, task_type: str | None) -> None:  # noqa: ARG002
        """Refuse a stock cache, a declaration that this variant would not obey, or a task.

        Raises:
            UnsupportedModeError: any of them.
        """
        variant = self.retrofit_config.variant
        if variant != "closed" and declared() is not None:
            msg = f"variant {variant!r} would read what is declared NULL; patch with 'closed'"
            raise UnsupportedModeError(msg)
        stock = kv_cache is not None and not isinstance(kv_cache, self.cache_class)
        if stock and not kv_cache.is_empty():
            msg = "the key/value cache was built by a stock model; build it with the patched one"
            raise UnsupportedModeError(msg)

    def _require_finite(self, logits_MBL: Tensor) -> None:
        """Check logits (M, B, n_out).

        Raises:
            NonFiniteOutputError: one is NaN or infinite.
        """
        finite = torch.isfinite(logits_MBL)
        if not finite.all():
            msg = (
                f"the patched host ({self.retrofit_config.variant}) emitted NaN or infinite logits "
                f"for {int((~finite).any(-1).sum())} of {logits_MBL[..., 0].numel()} "
                "test rows; check the inputs' range, the weights and the inference precision"
            )
            raise NonFiniteOutputError(msg)
