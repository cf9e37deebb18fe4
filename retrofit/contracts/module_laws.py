"""Functions and modules of the operators against their formulas, at fractional presence.

Every weight is drawn, biases included. Presences lie between 0.1 and 0.9, mixed within a batch,
and one token of each kind is NULL.

Shapes: B batch, S tokens, J sources, E model width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from retrofit.contracts.block_reference import as_it_is, double, evaluate, normed, presence
from retrofit.contracts.bounds import zero_figure
from retrofit.contracts.closure_laws import WIDTH, drawn
from retrofit.contracts.figures import Figure, Setting, deviation, largest, ulp_at
from retrofit.contracts.reference import direct_evaluation
from retrofit.contracts.samples import SHAPES, draw
from retrofit.hosts.anatomy import AttentionStep, FeedForwardStep, NormStep, Specimen
from retrofit.ops import (
    OFFN,
    OAttention,
    OAttentionConfig,
    OInject,
    ONorm,
    OStandardize,
    OTransformer,
    OTransformerConfig,
    add_gated,
    gate,
    offn,
    oinject,
    onorm,
)
from retrofit.ops import presence as ops_presence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

from retrofit.hosts.anatomy import Step

RECEIVERS, SOURCES = 4, 5
TAU = 9.0
# Far above the default, so that a sink that is left out shows.
EPS_DEN = 1e-2
FLOAT64_BOUND = 1e-12
ULPS_PER_PART = 16.0
"""Products, sums and norms of a part round some hundred numbers each, once."""
AGREEMENT = "agreement at fractional presence"


def function_formulas(setting: Setting) -> list[Figure]:
    """Compare the functions of gates, norms, feed-forward and injection with their formulas."""
    h, e = tokens(setting, TAU, WIDTH, RECEIVERS, null=0), tokens(setting, 1.0, WIDTH, 1, null=1)
    wide_h, wide_e, p = double(h), double(e), presence(double(h), TAU)
    p_BS1 = p[..., None]
    given = torch.from_numpy(p).to(setting.device, setting.presence_dtype)
    ffn, layer, rms = _ffn(setting), *(_norm(setting, kind) for kind in ("layer", "rms"))
    of_layer, of_rms = (normed(norm, wide_h, None, setting.dtype) for norm in (layer, rms))
    cases = {
        "gate": (gate(h, given), p_BS1 * wide_h),
        "add_gated": (add_gated(h, h * 2, given), (1 + 2 * p_BS1) * wide_h),
        "onorm, LayerNorm": (onorm(layer, h, given), p_BS1 * of_layer),
        "onorm, RMSNorm": (onorm(rms, h, given), p_BS1 * of_rms),
        "offn": (offn(ffn, h, given), wide_h + p_BS1 * as_it_is(ffn, wide_h)),
        "offn, LayerNorm": (offn(ffn, h, given, layer), wide_h + p_BS1 * as_it_is(ffn, of_layer)),
        "oinject": (oinject(h, e, given), wide_h + p_BS1 * wide_e),
    }
    figures = [
        agreement(setting, case, got, torch.from_numpy(want)) for case, (got, want) in cases.items()
    ]
    x = draw(setting, SHAPES[0])
    x = replace(x, p_BS=0.1 + 0.8 * x.p_BS, p_BJ=0.1 + 0.8 * x.p_BJ)
    want = direct_evaluation(x, EPS_DEN)
    figures.append(agreement(setting, "oattention", x.run(setting.kernel, EPS_DEN), want))
    awake = {"gate": gate(h, given), "onorm": onorm(layer, h, given)}
    awake["offn"] = offn(ffn, h, given)
    awake["oinject"] = oinject(h, e, given)
    figures += [null_token(setting, case, got, h) for case, got in awake.items()]
    return figures


def module_formulas(setting: Setting) -> list[Figure]:
    """Compare every module, and whole blocks of them, with their formulas."""
    figures = []
    for specimen in module_specimens(setting):
        figures += compared(setting, specimen, "")
    h, e = tokens(setting, TAU, WIDTH, RECEIVERS, null=0), tokens(setting, 1.0, WIDTH, 1, null=1)
    wide_h = double(h)
    p = presence(wide_h, TAU)
    want = wide_h + p[..., None] * double(e)
    figures.append(agreement(setting, "OInject", OInject(TAU)(h, e), torch.from_numpy(want)))
    for correction in (0.0, 1.0):
        got = OStandardize(correction=correction)(h, ops_presence(h, TAU))
        mean = (p[..., None] * wide_h).sum(1) / p.sum(1)[:, None]
        centred = wide_h - mean[:, None]
        freedom = (p.sum(1) - correction)[:, None]
        variance = (p[..., None] * centred**2).sum(1) / freedom
        want = p[..., None] * centred / (variance + 1e-5)[:, None] ** 0.5
        case = f"OStandardize, correction {correction:g}"
        figures.append(agreement(setting, case, got, torch.from_numpy(want)))
    return figures


def biased_empty_support(setting: Setting) -> list[Figure]:
    """An attention whose projections have biases gives 0 where nothing is there to be seen."""
    module = _attention(setting)
    x, y = (tokens(setting, TAU, WIDTH, count, null=0) for count in (RECEIVERS, SOURCES))
    hidden = torch.zeros(RECEIVERS, SOURCES, device=setting.device)
    cases = {
        "every source NULL": (torch.zeros_like(y), None),
        "no sources": (y[:, :0], None),
        "bool mask hides all": (y, hidden > 0),
        "float mask hides all": (y, hidden),
    }
    return [
        zero_figure(
            setting,
            "empty support",
            f"OAttention, biased: {case}",
            largest(module(x, sources, mask=mask).detach()),
        )
        for case, (sources, mask) in cases.items()
    ]


def module_specimens(setting: Setting) -> Iterator[Specimen]:
    """Every module that the steps of a specimen can tell, and whole transformers of them."""
    ffn, layer = _ffn(setting), _norm(setting, "layer")
    for kind in ("layer", "rms"):
        norm = _norm(setting, kind)
        onorm_module = ONorm(norm, TAU)
        yield _specimen(f"ONorm, {kind}", onorm_module, (NormStep(norm, ""),))
    yield _specimen("OFFN", OFFN(ffn, TAU), (FeedForwardStep(ffn, ""),))
    yield _specimen("OFFN, LayerNorm", OFFN(ffn, TAU, layer), (FeedForwardStep(ffn, "", layer),))
    attention = _attention(setting)
    step = _attention_step(attention)
    yield _specimen("OAttention", lambda x: x + attention(x), (step,))
    yield Specimen(
        "OAttention, cross",
        WIDTH,
        (step,),
        lambda x, y: x + attention(x, y),
        {"": TAU},
        EPS_DEN,
        own_sources=False,
    )
    for norm_first in (True, False):
        for kind in ("layer", "rms"):
            model = _transformer(setting, norm_first, kind)
            place = "pre" if norm_first else "post"
            name = f"OTransformer of two blocks, {place}-norm, {kind}"
            yield _specimen(name, model, tuple(_transformer_steps(model)))


def compared(
    setting: Setting, specimen: Specimen, prefix: str, *, null: bool = True
) -> list[Figure]:
    """Deviation from the formula and, where ``null``, what becomes of NULL tokens."""
    receivers, sources = carriers(setting, specimen)
    want = evaluate(specimen, receivers, sources)
    with torch.no_grad():
        got = specimen.run(receivers, sources)
    case = prefix + specimen.name
    figures = [agreement(setting, case, got, want, parts=len(specimen.steps))]
    if null:
        figures.append(null_token(setting, case, got, receivers))
    return figures


def agreement(setting: Setting, case: str, got: Tensor, want: Tensor, parts: int = 1) -> Figure:
    """The deviation from a float64 formula of as many parts."""
    ulp = ulp_at(largest(want), setting.dtype)
    bound, basis = FLOAT64_BOUND, f"{FLOAT64_BOUND:g} at carriers of order one"
    if setting.dtype != torch.float64:
        bound = ULPS_PER_PART * parts * ulp
        basis = f"{ULPS_PER_PART:g} ulp of the output's scale a part"
    return Figure(AGREEMENT, case, deviation(got.detach(), want), bound, basis, ulp)


def null_token(setting: Setting, case: str, got: Tensor, h: Tensor) -> Figure:
    """What the NULL tokens among the carriers ``h`` became."""
    return zero_figure(setting, "NULL token", case, largest(got[(h == 0).all(-1)].detach()))


def carriers(setting: Setting, specimen: Specimen) -> tuple[Tensor, Tensor]:
    """Receivers (B, S, E) and sources (B, J, E); a NULL one in another batch element each."""
    first = specimen.steps[0]
    receivers = tokens(setting, specimen.tau[first.stream], specimen.width, RECEIVERS, null=0)
    if specimen.own_sources:
        return receivers, receivers
    assert isinstance(first, AttentionStep)
    tau = specimen.tau[first.sources]
    return receivers, tokens(setting, tau, specimen.width, SOURCES, null=1)


def tokens(setting: Setting, tau: float, width: int, count: int, null: int) -> Tensor:
    """Carriers (2, count, width) with presences from 0.1 to 0.9.

    The second token of batch element ``null`` is NULL, if there is one.
    """
    generator = torch.Generator().manual_seed(setting.seed + 1 + count)
    p = 0.1 + 0.8 * torch.rand((2, count), generator=generator, dtype=torch.float64)
    h = torch.randn((2, count, width), generator=generator, dtype=torch.float64)
    norm_BS1 = (tau * p / (1 - p)).sqrt().unsqueeze(-1)
    h = norm_BS1 * h / h.square().sum(-1, keepdim=True).sqrt()
    h[null, 1:2] = 0.0
    return h.to(setting.device, setting.dtype)


def _specimen(name: str, run: Callable[[Tensor], Tensor], steps: tuple[Step, ...]) -> Specimen:
    return Specimen(name, WIDTH, steps, lambda x, _: run(x), {"": TAU}, EPS_DEN)


def _norm(setting: Setting, kind: str) -> nn.Module:
    return drawn(setting, nn.LayerNorm(WIDTH) if kind == "layer" else nn.RMSNorm(WIDTH))


def _ffn(setting: Setting) -> nn.Module:
    hidden = 2 * WIDTH
    return drawn(
        setting, nn.Sequential(nn.Linear(WIDTH, hidden), nn.GELU(), nn.Linear(hidden, WIDTH))
    )


def _attention_config(setting: Setting) -> OAttentionConfig:
    return OAttentionConfig(
        WIDTH, heads=4, kv_heads=2, tau=TAU, eps_den=EPS_DEN, backend=setting.kernel
    )


def _attention(setting: Setting) -> nn.Module:
    return drawn(setting, OAttention(_attention_config(setting)))


def _transformer(setting: Setting, norm_first: bool, kind: Any) -> nn.Module:
    config = OTransformerConfig(_attention_config(setting), norm=kind, norm_first=norm_first)
    return drawn(setting, OTransformer(config))


def _attention_step(attention: Any, norm: nn.Module | None = None) -> AttentionStep:
    projections = (
        attention.q_projection,
        attention.k_projection,
        attention.v_projection,
        attention.out_projection,
    )
    heads = attention.config.heads
    return AttentionStep(projections, heads, "", "", norm, norm, gated_norms=norm is not None)


def _transformer_steps(model: Any) -> Iterator[Step]:
    for block in model.blocks:
        if block.config.norm_first:
            yield _attention_step(block.attention, block.attention_norm.norm)
            yield FeedForwardStep(block.ffn.ffn, "", block.ffn.norm)
        else:
            yield _attention_step(block.attention)
            yield NormStep(block.attention_norm.norm, "")
            yield FeedForwardStep(block.ffn.ffn, "")
            yield NormStep(block.ffn_norm.norm, "")
    if model.final_norm is not None:
        yield NormStep(model.final_norm.norm, "")


FUNCTION_LAWS: dict[str, Callable[[Setting], list[Figure]]] = {
    "function_formulas": function_formulas,
}
MODULE_LAWS: dict[str, Callable[[Setting], list[Figure]]] = {
    "module_formulas": module_formulas,
    "biased_empty_support": biased_empty_support,
}
