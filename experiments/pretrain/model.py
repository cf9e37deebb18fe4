"""The model in training: tabpfn's own v3 class at mini size, and its loss.

Legend: R rows, B tasks, C columns, M test rows, L buckets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tabpfn.architectures import tabpfn_v3
from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution

if TYPE_CHECKING:
    from experiments.pretrain.config import ModelConfig
    from experiments.pretrain.stream import Batch

ARCHITECTURE = "tabpfn_v3"
_CORE = 4.0
_REACH = 100.0


def architecture_config(config: ModelConfig) -> Any:
    """Return tabpfn's own configuration object of a regressor of this size."""
    parsed, _ = tabpfn_v3.parse_config({"max_num_classes": -1, **config.model_dump()})
    return parsed


def target_borders(num_buckets: int) -> torch.Tensor:
    """Return the ``num_buckets + 1`` borders of the target, in standard deviations.

    Eight tenths of the buckets are equally wide on [-4, 4]; the rest widen geometrically to
    +-100, so that no finite target falls where the loss has no gradient.
    """
    side = num_buckets // 10
    core = torch.linspace(-_CORE, _CORE, num_buckets - 2 * side + 1, dtype=torch.float64)
    tail = torch.logspace(0, 1, side + 1, base=_REACH / _CORE, dtype=torch.float64)[1:] * _CORE
    return torch.cat([-tail.flip(0), core, tail]).float()


def build_model(config: ModelConfig, seed: int) -> Any:
    """Return a freshly initialised model in training mode; the global generator is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = tabpfn_v3.get_architecture(architecture_config(config))
    model.regression_borders.copy_(target_borders(config.num_buckets))
    # tabpfn turns NaN logits into zeros, which would hide a diverged model from the loss.
    model._nan_safe_output = False
    return model.train()


def build_loss(config: ModelConfig) -> FullSupportBarDistribution:
    """Return tabpfn's bar distribution on our borders."""
    return FullSupportBarDistribution(target_borders(config.num_buckets))


def batch_logits(model: Any, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits ``(M, B, L)`` of the test rows and their targets ``(M, B)``."""
    logits_MBL = model(batch.x_RBC, batch.y_RB[: batch.train_rows])
    return logits_MBL, batch.y_RB[batch.train_rows :]


def validation_figures(
    model: Any, loss: FullSupportBarDistribution, batches: list[Batch]
) -> torch.Tensor:
    """Return ``(tasks, 2)``: negative log likelihood and R2 of the predicted mean, per task."""
    rows = []
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for batch in batches:
            logits_MBL, y_MB = batch_logits(model, batch)
            nll_B = loss(logits_MBL, y_MB).mean(dim=0)
            error_B = (loss.mean(logits_MBL) - y_MB).square().mean(dim=0)
            spread_B = y_MB.var(dim=0, unbiased=False).clamp_min(1e-6)
            rows.append(torch.stack([nll_B, 1.0 - error_B / spread_B], dim=1))
    model.train(was_training)
    return torch.cat(rows) if rows else torch.empty(0, 2)
