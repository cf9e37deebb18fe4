"""The hosts of the two-block ablation: an OTransformer whose components can be made ordinary.

Shapes: B batch, S tokens, E model width.
"""

from __future__ import annotations

import copy
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from retrofit.ops import (
    OFFN,
    OAttention,
    OAttentionConfig,
    ONorm,
    OTransformer,
    OTransformerBlock,
    OTransformerConfig,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from experiments.studies.ablation.ablation import AblatedHost, AblationConfig, SharedWeights

BIAS_STD = 0.5
NORM_WEIGHT_STD = 0.1
# Attention as He's initialisation scales it, feed-forward as LeCun's.
ATTENTION_VARIANCE = 2.0
FFN_VARIANCE = 1.0


class OrdinaryNorm(ONorm):
    """The norm without its gate."""

    def forward(self, h: Tensor, p: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Return ``norm(h)``."""
        out: Tensor = self.norm(h)
        return out


class OrdinaryFFN(OFFN):
    """The residual feed-forward without its gate."""

    def forward(self, h: Tensor, p: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Return ``h + ffn(norm(h))``."""
        update: Tensor = self.ffn(h if self.norm is None else self.norm(h))
        return h + update


class PartialOAttention(OAttention):
    """Attention with one of its two gates, or with neither: then it is ordinary attention."""

    def __init__(self, config: OAttentionConfig, *, sources: bool, receivers: bool) -> None:
        super().__init__(config if sources else replace(config, eps_den=0.0))
        self.sources = sources
        self.receivers = receivers

    def forward(
        self,
        x_BSE: Tensor,
        y_BJF: Tensor | None = None,
        *,
        p_BS: Tensor | None = None,
        p_BJ: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return the update, with presence 1 in place of the gates that are off."""
        y = x_BSE if y_BJF is None else y_BJF
        p_BS = p_BS if self.receivers else x_BSE.new_ones(x_BSE.shape[:2])
        p_BJ = p_BJ if self.sources else y.new_ones(y.shape[:2])
        return super().forward(x_BSE, y_BJF, p_BS=p_BS, p_BJ=p_BJ, mask=mask)


def draw_model(setting: SharedWeights, config: AblationConfig) -> OTransformer:
    """Return the OTransformer of a setting in float64, every parameter drawn from its seed."""
    attention = OAttentionConfig(setting.width, config.heads, tau=config.tau)
    model = OTransformer(
        OTransformerConfig(
            attention,
            setting.depth,
            norm="layer" if setting.layers == "biased" else "rms",
            norm_first=setting.norm_placement == "pre",
        )
    ).double()
    generator = torch.Generator().manual_seed(2 * setting.seed)
    bias_std = BIAS_STD if setting.layers == "biased" else 0.0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if parameter.dim() == 2:
                variance = FFN_VARIANCE if ".ffn." in name else ATTENTION_VARIANCE
                noise *= (variance / parameter.shape[1]) ** 0.5
            elif name.endswith("bias"):
                noise *= bias_std
            else:
                noise = 1 + noise * NORM_WEIGHT_STD
            if ".out_projection." in name or ".ffn.ffn.2." in name:
                # Updates shrink with the depth, as in a flow, so that states do not grow with it.
                noise *= 2 / setting.depth
            parameter.copy_(noise)
    return model.eval()


def make_host(model: OTransformer, host: AblatedHost) -> OTransformer:
    """Return a copy of the model with ordinary counterparts where the host lacks O-components."""
    model = copy.deepcopy(model)
    for block in model.blocks:
        assert isinstance(block, OTransformerBlock)
        _make_ordinary(block, host)
    return model


def measure(
    setting: SharedWeights, hosts: Iterable[AblatedHost], config: AblationConfig
) -> list[dict[str, Any]]:
    """Insert a zero token into every host; one row per host, dtype and block."""
    generator = torch.Generator().manual_seed(2 * setting.seed + 1)
    size = (1, config.tokens, setting.width)
    h_BSE = torch.randn(size, generator=generator, dtype=torch.float64)
    position = int(torch.randint(0, config.tokens + 1, (), generator=generator))
    null_B1E = h_BSE.new_zeros(1, 1, setting.width)
    wide_BSE = torch.cat([h_BSE[:, :position], null_B1E, h_BSE[:, position:]], 1)
    old = torch.arange(config.tokens + 1) != position

    full = draw_model(setting, config)
    rows = []
    for host in hosts:
        model = make_host(full, host)
        for name in config.dtypes:
            dtype = getattr(torch, name)
            # A copy, so that every dtype rounds the float64 weights and no other's.
            cast = copy.deepcopy(model).to(dtype)
            before_after = zip(
                _states(cast, h_BSE.to(dtype)), _states(cast, wide_BSE.to(dtype)), strict=True
            )
            for block, (before, after) in enumerate(before_after, 1):
                rows.append(
                    {
                        **asdict(setting),
                        "dtype": name,
                        "host": host.name,
                        "block": block,
                        "old_shift": float((after[:, old] - before).abs().max()),
                        "null_size": float(after[:, ~old].abs().max()),
                        "state_size": float(before.abs().max()),
                    }
                )
    return rows


@torch.no_grad()
def _states(model: OTransformer, h_BSE: Tensor) -> list[Tensor]:
    """Return the tokens after every block."""
    states = []
    for block in model.blocks:
        h_BSE = block(h_BSE)
        states.append(h_BSE)
    return states


def _make_ordinary(block: OTransformerBlock, host: AblatedHost) -> None:
    if not (host.sources and host.receivers):
        full = block.attention
        partial = PartialOAttention(full.config, sources=host.sources, receivers=host.receivers)
        partial = partial.to(full.out_projection.weight.dtype)
        partial.load_state_dict(full.state_dict())
        block.attention = partial
    if not host.ffn:
        block.ffn = OrdinaryFFN(block.ffn.ffn, block.ffn.tau, block.ffn.norm)
    if not host.norm:
        norm = block.attention_norm
        block.attention_norm = OrdinaryNorm(norm.norm, norm.tau)
        if block.ffn_norm is not None:
            block.ffn_norm = OrdinaryNorm(block.ffn_norm.norm, block.ffn_norm.tau)
