"""The model in training: any regressor of tabpfn's architecture registry, and its loss.

Shapes: R rows, B tasks, C columns, M test rows, L buckets.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError
from tabpfn.architectures import ARCHITECTURES
from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution

from experiments.errors import ConfigError

if TYPE_CHECKING:
    from tabpfn.architectures.interface import ArchitectureConfig

    from experiments.pretrain.config import PretrainConfig
    from experiments.pretrain.stream import Batch

_CORE = 4.0
_REACH = 100.0


def architecture_module(name: str) -> Any:
    """The module that tabpfn has under a name. Raises ``ConfigError``: it has none."""
    if name not in ARCHITECTURES:
        raise ConfigError(f"no architecture '{name}'; tabpfn has {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def parse_architecture(name: str, fields: dict[str, Any]) -> ArchitectureConfig:
    """tabpfn's own configuration object. Raises ``ConfigError``: a field does not fit it."""
    try:
        parsed, unknown = architecture_module(name).parse_config(dict(fields))
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in error.errors())
        raise ConfigError("; ".join(faults)) from None
    if unknown:
        raise ConfigError(f"'{name}' has no field {', '.join(sorted(unknown))}")
    return parsed


def architecture_config(config: PretrainConfig) -> ArchitectureConfig:
    """tabpfn's own configuration object of the model of a run."""
    return parse_architecture(config.architecture, config.model)


def target_borders(num_buckets: int) -> torch.Tensor:
    """The ``num_buckets + 1`` borders of the target, in standard deviations.

    Eight tenths of the buckets are equally wide on [-4, 4]; the rest widen geometrically to
    +-100, so that no finite target falls where the loss has no gradient.
    """
    side = num_buckets // 10
    core = torch.linspace(-_CORE, _CORE, num_buckets - 2 * side + 1, dtype=torch.float64)
    tail = torch.logspace(0, 1, side + 1, base=_REACH / _CORE, dtype=torch.float64)[1:] * _CORE
    return torch.cat([-tail.flip(0), core, tail]).float()


def build_model(config: PretrainConfig) -> Any:
    """A freshly initialised model in training mode; the global generator is left alone.

    Raises:
        ConfigError: the model cannot be built, or does not yield one logit per bucket.
    """
    parsed = architecture_config(config)
    borders = target_borders(parsed.num_buckets)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        try:
            model: Any = architecture_module(config.architecture).get_architecture(parsed)
        except (AssertionError, RuntimeError, ValueError) as error:
            raise ConfigError(f"model: tabpfn cannot build it ({error}).") from error
    # Up to v2.6 the borders are no part of the model; the export writes them beside it.
    if (own := getattr(model, "regression_borders", None)) is not None:
        own.copy_(borders)
    # tabpfn turns NaN logits into zeros, which would hide a diverged model from the loss.
    model._nan_safe_output = False
    _check_head(model, parsed.num_buckets)
    return model.train()


def _check_head(model: Any, buckets: int) -> None:
    x_RBC, y_NB = torch.eye(4)[:, None, :2].expand(4, 2, 2), torch.eye(3)[:, :2]
    with torch.no_grad():
        outputs = _logits(model, x_RBC, y_NB).shape[-1]
    if outputs != buckets:
        raise ConfigError(
            f"model: the head yields {outputs} logits for num_buckets={buckets}; "
            "set max_num_classes as this architecture's regressors have it."
        )


def build_loss(config: PretrainConfig) -> FullSupportBarDistribution:
    """tabpfn's bar distribution on our borders."""
    return FullSupportBarDistribution(target_borders(architecture_config(config).num_buckets))


def _logits(model: Any, x_RBC: torch.Tensor, y_NB: torch.Tensor) -> torch.Tensor:
    # As tabpfn's engine does it: a model of several tasks is told which one.
    several = "task_type" in inspect.signature(model.forward).parameters
    logits: torch.Tensor = model(x_RBC, y_NB, **({"task_type": "regression"} if several else {}))
    return logits


def batch_logits(model: Any, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits ``(M, B, L)`` of the test rows and their targets ``(M, B)``."""
    logits_MBL = _logits(model, batch.x_RBC, batch.y_RB[: batch.train_rows])
    return logits_MBL, batch.y_RB[batch.train_rows :]


def validation_figures(
    model: Any, loss: FullSupportBarDistribution, batches: list[Batch]
) -> torch.Tensor:
    """``(tasks, 2)``: negative log likelihood and R2 of the predicted mean, per task."""
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
