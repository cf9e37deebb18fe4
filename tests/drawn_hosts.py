"""Models of every generation whose zero-initialised weights are drawn, small or not."""

from __future__ import annotations

from dataclasses import replace

import torch
from tabpfn.architectures import ARCHITECTURES
from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution
from tabpfn.constants import ModelVersion
from tabpfn.inference_config import InferenceConfig
from torch import nn

from retrofit import Host
from retrofit.hosts.clone import alias

TINY = {
    "embed_dim": 32,
    "dist_embed_num_blocks": 2,
    "dist_embed_num_heads": 4,
    "dist_embed_num_inducing_points": 8,
    "feat_agg_num_blocks": 2,
    "feat_agg_num_heads": 4,
    "feat_agg_num_cls_tokens": 2,
    "nlayers": 2,
    "icl_num_heads": 4,
    "num_buckets": 100,
}
_GRID = {"emsize": 32, "nlayers": 2, "nhead": 4, "num_buckets": 100, "max_num_classes": 0}
TINY_GRIDS: dict[str, dict[str, int]] = {
    "tabpfn_v2": {**_GRID, "features_per_group": 2},
    "tabpfn_v2_5": {**_GRID, "features_per_group": 3, "num_thinking_rows": 5},
    "tabpfn_v2_6": {**_GRID, "features_per_group": 3, "num_thinking_rows": 5},
}
# A classification head is part of every v3.5.
CLASSES = {"tabpfn_v3_5": 3}


def redrawn(architecture: str, seed: int = 0, **settings: object) -> nn.Module:
    """A regressor whose zero-initialised weights are drawn, so that no block is an identity."""
    torch.manual_seed(seed)
    module = ARCHITECTURES[architecture]
    classes = CLASSES.get(architecture, 0)
    config, unknown = module.parse_config(
        {"num_buckets": 5000, "max_num_classes": classes, **settings}
    )
    assert not unknown
    model = module.get_architecture(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                fan_in = parameter.shape[-1]
                parameter.copy_(torch.randn_like(parameter) * fan_in**-0.5)
    return model


def host_of(model: nn.Module, name: str = "redrawn") -> Host:
    inference_config = InferenceConfig.get_default("regression", ModelVersion.V2_5)
    criterion = None
    if not hasattr(model, "regression_borders"):
        borders = torch.linspace(-4.0, 4.0, model.n_out + 1)
        criterion = FullSupportBarDistribution(borders, ignore_nan_targets=True)
    return Host.from_model(model, inference_config, name=name, criterion=criterion)


def decided(host: Host) -> Host:
    """The host with a sharper output, which decides enough that rows and patches differ.

    Drawn weights spread a prediction over all of the 5,000 buckets, so its mean hardly moves.
    """
    model = alias(host.model)
    last = model.output_projection[-1]
    last.weight = nn.Parameter(30.0 * last.weight.detach(), requires_grad=last.weight.requires_grad)
    return replace(host, model=model)


def tiny_grid(architecture: str, **settings: object) -> Host:
    """A tiny redrawn host of v2, v2.5 or v2.6."""
    name = architecture.removeprefix("tabpfn_").replace("_", ".")
    return host_of(redrawn(architecture, **{**TINY_GRIDS[architecture], **settings}), name)
