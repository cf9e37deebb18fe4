"""O-Closure: M(H + NULL) = M(H) + NULL, measured for every component and for whole transformers.

Every weight is drawn, biases included, so that no component is closed for being bias-free.

Shapes: B batch, S tokens, E model width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from retrofit.contracts.figures import Figure, Setting, deviation, largest, ulp_at
from retrofit.ops import (
    OFFN,
    OAttention,
    OAttentionConfig,
    OInject,
    ONorm,
    OStandardize,
    OTransformer,
    OTransformerBlock,
    OTransformerConfig,
    presence,
)

TAU = 1e-6
WIDTH = 32
TOKENS = 9
DEPTHS = (1, 2, 3, 4, 5, 6, 7, 8)
# Inserting tokens lets the six matrix products and the sums of a layer round differently.
ULPS_PER_LAYER = 16.0

_Map = Callable[[Tensor], Tensor]


def component_closure(setting: Setting) -> list[Figure]:
    """Measure every component by itself, and one block of each kind."""
    return [
        figure
        for name, make in _components(setting)
        for figure in _closure(setting, name, make, layers=1)
    ]


def transformer_closure(setting: Setting) -> list[Figure]:
    """Measure transformers of depth 1 to 8."""
    figures = []
    for depth in DEPTHS:
        model = drawn(setting, OTransformer(_config(setting, depth=depth)))
        figures += _closure(setting, f"OTransformer, depth {depth}", model, layers=depth)
    return figures


def drawn(setting: Setting, module: nn.Module) -> nn.Module:
    """Return the module with every parameter drawn from the seed, at the setting's dtype."""
    generator = torch.Generator().manual_seed(setting.seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if parameter.dim() == 2:
                noise = noise / parameter.shape[1] ** 0.5
            parameter.copy_(noise)
    return module.to(setting.device, setting.dtype).eval()


def _config(
    setting: Setting, depth: int = 1, norm_first: bool = True, rms: bool = False
) -> OTransformerConfig:
    attention = OAttentionConfig(WIDTH, heads=4, kv_heads=2, tau=TAU, backend=setting.kernel)
    return OTransformerConfig(
        attention, depth, norm_first=norm_first, norm="rms" if rms else "layer"
    )


def _components(setting: Setting) -> Iterator[tuple[str, _Map]]:
    generator = torch.Generator().manual_seed(setting.seed + 1)
    e_E = torch.randn(WIDTH, generator=generator, dtype=torch.float64)
    e_E = e_E.to(setting.device, setting.dtype)
    mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
    standardize, inject = OStandardize(), OInject(TAU)
    yield "ONorm, LayerNorm", drawn(setting, ONorm(nn.LayerNorm(WIDTH), TAU))
    yield "ONorm, RMSNorm", drawn(setting, ONorm(nn.RMSNorm(WIDTH), TAU))
    yield "OFFN", drawn(setting, OFFN(mlp, TAU, nn.LayerNorm(WIDTH)))
    yield "OInject", lambda h: inject(h, e_E)
    yield "OStandardize", lambda h: standardize(h, presence(h, TAU))
    yield "OAttention", drawn(setting, OAttention(_config(setting).attention))
    for norm_first in (True, False):
        for rms in (False, True):
            place, kind = "pre" if norm_first else "post", "RMSNorm" if rms else "LayerNorm"
            block = OTransformerBlock(_config(setting, norm_first=norm_first, rms=rms))
            yield f"OTransformerBlock, {place}-norm, {kind}", drawn(setting, block)


def _closure(setting: Setting, name: str, map_: _Map, layers: int) -> list[Figure]:
    """Insert NULL tokens at the front, in the middle and at the end, all at once.

    Also beside a batch element that has ordinary tokens there ("ragged"), so that no kernel can
    leave their places out.
    """
    generator = torch.Generator().manual_seed(setting.seed)
    tokens = TOKENS + 3
    drawn_BSE = torch.randn((3, tokens, WIDTH), generator=generator, dtype=torch.float64)
    drawn_BSE = drawn_BSE.to(setting.device, setting.dtype)
    old = torch.ones(tokens, dtype=torch.bool)
    old[[0, 5, tokens - 1]] = False
    wide_BSE = drawn_BSE.clone()
    wide_BSE[:2, ~old] = 0.0
    with torch.no_grad():
        before, after, ragged = map_(wide_BSE[:2, old]), map_(wide_BSE[:2]), map_(wide_BSE)[:2]
    ulp = ulp_at(largest(before), setting.dtype)
    bound = ULPS_PER_LAYER * layers * ulp
    basis = f"{ULPS_PER_LAYER:g} ulp of the output's scale a layer"

    def moved(case: str, out: Tensor) -> Figure:
        shift = deviation(out[:, old], before)
        return Figure("O-Closure", f"{name}: {case}", shift, bound, basis, ulp)

    null = max(largest(after[:, ~old]), largest(ragged[:, ~old]))
    return [
        moved("old tokens", after),
        moved("old tokens, ragged batch", ragged),
        Figure("O-Closure", f"{name}: NULL tokens", null, 0.0, "exactly 0", ulp),
    ]


CLOSURE_LAWS: dict[str, Callable[[Setting], list[Figure]]] = {
    "component_closure": component_closure,
    "transformer_closure": transformer_closure,
}
