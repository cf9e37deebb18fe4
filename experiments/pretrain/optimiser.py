"""Muon and AdamW side by side on one flat gradient, with a linear schedule and an average."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

if TYPE_CHECKING:
    from experiments.pretrain.config import OptimiserConfig

# Matrices next to the input, the output or the attention temperature are not hidden layers.
_NOT_HIDDEN = (
    "embed.",
    "group_embedder",
    "target_embedder",
    "positional_embedding",
    "thinking",
    "encoder",
    "output_projection",
    "softmax_scaling",
    "inducing",
    "cls_",
)


class Optimiser:
    """One optimisation step for a model whose gradients live in one flat tensor.

    ``gradient`` is that tensor: the processes average it in a single exchange. ``average`` is an
    exponential moving average of the weights, and what a finished run exports.
    """

    def __init__(self, model: torch.nn.Module, config: OptimiserConfig):
        self._config = config
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        hidden = [p for n, p in named if p.ndim == 2 and not any(part in n for part in _NOT_HIDDEN)]
        chosen = {id(p) for p in hidden}
        rest = [p for _, p in named if id(p) not in chosen]
        self._muon = torch.optim.Muon(
            hidden,
            lr=config.muon_lr,
            weight_decay=config.weight_decay,
            adjust_lr_fn="match_rms_adamw",
        )
        self._adamw = torch.optim.AdamW(
            rest, lr=config.adamw_lr, betas=(0.9, 0.98), weight_decay=config.weight_decay
        )
        self.gradient = torch.zeros(sum(p.numel() for _, p in named))
        start = 0
        for _, parameter in named:
            end = start + parameter.numel()
            parameter.grad = self.gradient[start:end].view_as(parameter)
            start = end
        self._model = model
        self.average = AveragedModel(model, multi_avg_fn=self._average_step)

    def _average_step(self, averaged: Any, current: Any, count: Any) -> None:
        # A short memory at first: early weights must not linger in the average.
        decay = min(self._config.ema_decay, (1.0 + float(count)) / (10.0 + float(count)))
        get_ema_multi_avg_fn(decay)(averaged, current, count)  # type: ignore[no-untyped-call]

    def rate(self, step: int, progress: float) -> float:
        """The learning rate as a share of its peak: warm-up, then linear to zero."""
        return min(1.0, (step + 1) / self._config.warmup_steps) * (1.0 - progress)

    def step(self, step: int, progress: float) -> float:
        """Clip ``gradient``, update weights and average; return the norm before clipping.

        A non-finite gradient changes nothing; the caller sees it in the returned norm.
        """
        norm = float(torch.linalg.vector_norm(self.gradient))
        if math.isfinite(norm):
            self.gradient.mul_(min(1.0, self._config.clip_norm / (norm + 1e-12)))
            rate = self.rate(step, progress)
            for group in self._muon.param_groups:
                group["lr"] = self._config.muon_lr * rate
            for group in self._adamw.param_groups:
                group["lr"] = self._config.adamw_lr * rate
            self._muon.step()  # type: ignore[no-untyped-call]
            self._adamw.step()
            self.average.update_parameters(self._model)
        self.gradient.zero_()
        return norm

    def state_dict(self) -> dict[str, Any]:
        """The state of both optimisers and of the average."""
        return {
            "muon": self._muon.state_dict(),
            "adamw": self._adamw.state_dict(),
            "average": self.average.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._muon.load_state_dict(state["muon"])
        self._adamw.load_state_dict(state["adamw"])
        self.average.load_state_dict(state["average"])
