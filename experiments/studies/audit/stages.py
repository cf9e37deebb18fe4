"""The states of a v3 host after each stage of one forward pass, taken by hooks.

Shapes: R rows, N train rows, M test rows, C columns, Q CLS tokens, I inducing vectors, E width.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tabpfn.architectures.tabpfn_v3 import TabPFNV3, TabPFNV3Config
    from torch import Tensor, nn

    from experiments.studies.audit.insertions import Insertion, ModelTable
    from retrofit import Presence

Layout = Literal["cells", "induced", "column_rows", "tokens", "cls", "rows", "test_rows"]
States = dict[str, "Tensor"]


@dataclass(frozen=True)
class Stage:
    """A place on the way through the host at which tokens can be looked at."""

    name: str
    """Name of the block or site whose work the states show."""
    module: str
    """Qualified name of the module that is hooked."""
    side: Literal["input", "output"]
    layout: Layout


CELLS = "cells"
LOGITS = Stage("logits", "", "output", "test_rows")


def stages(config: TabPFNV3Config) -> list[Stage]:
    """The stages of a v3 host, in the order of the forward pass, without the logits."""
    found = [Stage(CELLS, "feature_distribution_embedder", "input", "cells")]
    for layer in range(config.dist_embed_num_blocks):
        block = f"feature_distribution_embedder.layers.{layer}.cross_attn_block"
        found.append(Stage(f"{block}1", f"{block}1", "output", "induced"))
        found.append(Stage(f"{block}2", f"{block}2", "output", "column_rows"))
    last = config.feat_agg_num_blocks - 1
    for layer in range(last):
        name = f"column_aggregator.blocks.{layer}"
        if layer == 0:
            found.append(Stage("column_aggregator.cls_tokens", name, "input", "tokens"))
        found.append(Stage(name, name, "output", "tokens"))
    # The last block is run by a method of its own, which hooks do not see.
    out_ln = "column_aggregator.out_ln"
    found.append(Stage(f"column_aggregator.blocks.{last}", out_ln, "input", "cls"))
    found.append(Stage(out_ln, out_ln, "output", "cls"))
    found.append(Stage("icl_y_encoder", "icl_blocks.0", "input", "rows"))
    for layer in range(config.nlayers):
        name = f"icl_blocks.{layer}"
        found.append(Stage(name, name, "output", "rows"))
    return [*found, Stage("output_norm", "output_norm", "output", "rows")]


def run(
    model: TabPFNV3,
    table: ModelTable,
    presence: Presence | None = None,
    rewrite: Callable[[Stage, Tensor], Tensor] | None = None,
) -> States:
    """States (tokens as in their layout, E) by stage; ``rewrite`` replaces them on the way."""
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
        for stage in stages(model.config):
            handle = _hook(model.get_submodule(stage.module), stage, pass_on)
            hooks.callback(handle.remove)
        x_RBC, y_NB = table.x_RC[:, None].to(dtype), table.y_N[:, None].to(dtype)
        with torch.inference_mode(), declaring(presence):
            logits_MBL = model(x_RBC, y_NB)
    return {**states, LOGITS.name: logits_MBL}


def null_mask(layout: Layout, where: Insertion, config: TabPFNV3Config) -> Tensor:
    """True for every token of the layout that belongs to a NULL row or column."""
    rows, columns = where.rows, where.columns
    cls = torch.ones(config.feat_agg_num_cls_tokens, dtype=torch.bool)
    induced = torch.ones(config.dist_embed_num_inducing_points, dtype=torch.bool)
    present = {
        "cells": rows[:, None] & columns,
        "induced": columns[:, None] & induced,
        "column_rows": columns[:, None] & rows,
        "tokens": rows[:, None] & torch.cat((cls, columns)),
        "cls": rows[:, None] & cls,
        "rows": rows,
        "test_rows": where.test,
    }
    return ~present[layout]


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
            if args:
                return (pass_on(stage, args[0]), *args[1:]), kwargs
            return args, {**kwargs, "x_BRiCE": pass_on(stage, kwargs["x_BRiCE"])}

        return module.register_forward_pre_hook(before, with_kwargs=True)

    def after(_: nn.Module, __: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (pass_on(stage, output[0]), *output[1:])
        return pass_on(stage, output)

    return module.register_forward_hook(after)
