"""Copies of a model that share the storage of its weights but none of its objects."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)


def alias(model: Model) -> Model:
    """A structural copy of ``model`` whose parameters and buffers alias its storage.

    Casting or moving the copy gives it storage of its own and leaves ``model`` as it is; only a
    write into the weights in place reaches both. Ties and ``requires_grad`` are kept: torch picks
    matrix kernels by the latter, so a copy that dropped it would differ in the last bits.
    """
    memo: dict[int, object] = {}
    for parameter in model.parameters():
        memo[id(parameter)] = nn.Parameter(
            parameter.detach(), requires_grad=parameter.requires_grad
        )
    for buffer in model.buffers():
        memo[id(buffer)] = buffer.detach()
    return copy.deepcopy(model, memo)


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """The state dict as plain detached tensors."""
    return {name: tensor.detach() for name, tensor in model.state_dict().items()}
