"""The states of a host after each stage of one forward pass, taken by hooks.

Shapes: R rows, N train rows, M test rows, C columns, E width.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch

from retrofit.hosts.registry import generation_of_model
from retrofit.hosts.stages import CELLS, LOGITS, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor, nn

    from experiments.studies.audit.insertions import ModelTable
    from retrofit import Presence
    from retrofit.hosts.stages import Places

States = dict[str, "Tensor"]


def stages(model: Any) -> list[Stage]:
    """The stages of a host, in the order of the forward pass, the logits last."""
    logits = Stage(LOGITS, "", "output", lambda places: places.test, LOGITS)
    return [*generation_of_model(model).stages(model.config), logits]


def run(
    model: Any,
    table: ModelTable,
    presence: Presence | None = None,
    rewrite: Callable[[Stage, Tensor], Tensor] | None = None,
    more: Sequence[Stage] = (),
) -> States:
    """States (tokens in the order of their stage, E) by stage, of ``more`` stages too.

    ``rewrite`` replaces them on the way.
    """
    from retrofit import declaring

    dtype = next(model.parameters()).dtype
    states: States = {}

    def pass_on(stage: Stage, state: Tensor) -> Tensor:
        states[stage.name] = state.detach().clone()
        if rewrite is None:
            return state
        passed = rewrite(stage, state)
        if stage.name == CELLS:
            # Carriers begin here: what a rewrite puts there is where its tokens start from.
            states[stage.name] = passed.clone()
        return passed

    with ExitStack() as hooks:
        for stage in [*stages(model)[:-1], *more]:
            handle = _hook(model.get_submodule(stage.module), stage, pass_on)
            hooks.callback(handle.remove)
        x_RBC, y_NB = table.x_RC[:, None].to(dtype), table.y_N[:, None].to(dtype)
        with torch.inference_mode(), declaring(presence):
            logits_MBL = generation_of_model(model).run(model, x_RBC, y_NB)
    return {**states, LOGITS: logits_MBL}


def null_mask(stage: Stage, where: Places) -> Tensor:
    """True for every token of the stage that belongs to a NULL row or column."""
    return ~stage.present(where)


def split(state: Tensor, null: Tensor) -> tuple[Tensor, Tensor]:
    """The table's own tokens (tokens, E) and the inserted ones."""
    tokens = state.reshape(*null.shape, -1)
    return tokens[~null], tokens[null]


def largest(values: Tensor) -> float:
    """Largest absolute value; 0 of nothing."""
    return float(values.abs().max()) if values.numel() else 0.0


def _hook(
    module: nn.Module, stage: Stage, pass_on: Callable[[Stage, Tensor], Tensor]
) -> torch.utils.hooks.RemovableHandle:
    if stage.side == "input":

        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if args and isinstance(args[0], list):
                # A list of one hands the state over, so that the caller keeps no hold of it.
                return ([pass_on(stage, args[0][0])], *args[1:]), kwargs
            if args:
                return (pass_on(stage, args[0]), *args[1:]), kwargs
            first = next(iter(kwargs))
            return args, {**kwargs, first: pass_on(stage, kwargs[first])}

        return module.register_forward_pre_hook(before, with_kwargs=True)

    def after(_: nn.Module, __: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (pass_on(stage, output[0]), *output[1:])
        return pass_on(stage, output)

    return module.register_forward_hook(after)
