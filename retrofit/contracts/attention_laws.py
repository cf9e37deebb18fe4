"""Laws of OAttention apart from insertion, measured for one kernel at one dtype.

Shapes: B batch, S receivers, J sources, H heads, D head width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from retrofit.contracts.bounds import accuracy_bound, shift_figure, zero_figure
from retrofit.contracts.figures import Figure, Setting, deviation, largest, ulp_at, worst
from retrofit.contracts.reference import direct_evaluation, logarithmic_evaluation
from retrofit.contracts.samples import MASKS, SHAPES, beside_a_fuller, draw, serves
from retrofit.ops import EpsMode, presence

if TYPE_CHECKING:
    from collections.abc import Callable

# Inputs per shape and mask, over which the largest error is taken.
DRAWS = 6

_EPS_CASES: tuple[tuple[str, EpsMode, float], ...] = (
    ("eps 1e-8", "absolute", 1e-8),
    ("eps 0", "absolute", 0.0),
    ("relative eps 1e-3", "relative", 1e-3),
)


def agreement(setting: Setting) -> list[Figure]:
    """Compare with the direct float64 evaluation, over shapes and masks."""
    samples = [
        draw(replace(setting, seed=setting.seed + offset), shape, style)
        for offset in range(DRAWS)
        for shape in SHAPES
        for style in MASKS
    ]
    figures = []
    for case, mode, eps in _EPS_CASES:
        errors, naive_errors, scale = [], [], 0.0
        for x in samples:
            if not serves(setting.kernel, x, mode):
                continue
            want = direct_evaluation(x, eps, mode == "relative")
            errors.append(deviation(x.run(setting.kernel, eps, mode), want))
            naive_errors.append(deviation(x.run("naive", eps, mode), want))
            scale = max(scale, largest(want))
        if errors:
            bound, basis = accuracy_bound(setting, worst(naive_errors))
            ulp = ulp_at(scale, setting.dtype)
            figures.append(Figure("agreement", case, worst(errors), bound, basis, ulp))
    return figures


def null_receiver(setting: Setting) -> list[Figure]:
    """Receivers of presence 0 get exactly 0, whatever their queries."""
    x = draw(setting, SHAPES[0])
    out_BHSD = replace(x, p_BS=torch.zeros_like(x.p_BS)).run(setting.kernel)
    return [zero_figure(setting, "null receiver", "every receiver NULL", largest(out_BHSD))]


def empty_support(setting: Setting) -> list[Figure]:
    """Where no source is present and visible the output is exactly 0, with and without eps."""
    figures = []
    x = draw(setting, SHAPES[0])
    none = torch.zeros(x.q_BHSD.shape[2], x.p_BJ.shape[1], device=setting.device)
    cases = {
        "every source NULL": replace(x, p_BJ=torch.zeros_like(x.p_BJ)),
        "bool mask hides all": replace(x, mask=none > 0),
        "float mask hides all": replace(x, mask=none),
        "no sources": x.sources(torch.arange(0)),
    }
    for case, y in cases.items():
        outs = [
            largest(y.run(setting.kernel, eps, mode))
            for _, mode, eps in _EPS_CASES
            if serves(setting.kernel, y, mode)
        ]
        figures.append(zero_figure(setting, "empty support", case, worst(outs)))
    return figures


def some_rows_masked(setting: Setting) -> list[Figure]:
    """A receiver without support gets exactly 0 and leaves the others as they were."""
    x = draw(setting, SHAPES[0])
    visible = torch.ones(x.q_BHSD.shape[2], x.p_BJ.shape[1], dtype=torch.bool)
    visible[::2] = False
    y = replace(x, mask=visible.to(setting.device))
    out, free = y.run(setting.kernel, 0.0), x.run(setting.kernel, 0.0)
    law, shift = "fully masked rows", deviation(out[:, :, 1::2], free[:, :, 1::2])
    return [
        zero_figure(setting, law, "masked receivers", largest(out[:, :, ::2])),
        shift_figure(setting, law, "other receivers", shift, largest(free)),
    ]


def softmax_limit(setting: Setting) -> list[Figure]:
    """With tau -> 0 and eps -> 0 OAttention is ordinary softmax attention."""
    errors, naive_errors, scale = [], [], 0.0
    for shape in SHAPES:
        x = draw(setting, shape)
        carrier = torch.ones((*x.p_BJ.shape, 4), device=setting.device)
        receiver = torch.ones((*x.p_BS.shape, 4), device=setting.device)
        p = {"p_BS": presence(receiver, 1e-20), "p_BJ": presence(carrier, 1e-20)}
        x = replace(x, **{name: y.to(setting.presence_dtype) for name, y in p.items()})
        groups = shape.heads // shape.kv_heads
        q, k, v = (y.double().cpu() for y in (x.q_BHSD, x.k_BhJD, x.v_BhJD))
        scores = q @ k.repeat_interleave(groups, 1).mT * x.scale
        want = torch.softmax(scores, -1) @ v.repeat_interleave(groups, 1)
        errors.append(deviation(x.run(setting.kernel, 1e-20), want))
        naive_errors.append(deviation(x.run("naive", 1e-20), want))
        scale = max(scale, largest(want))
    bound, basis = accuracy_bound(setting, worst(naive_errors))
    ulp = ulp_at(scale, setting.dtype)
    return [Figure("softmax limit", "tau, eps 1e-20", worst(errors), bound, basis, ulp)]


def permutation(setting: Setting) -> list[Figure]:
    """The order of the sources does not matter."""
    figures = []
    for shape, case in ((SHAPES[0], "short axis"), (SHAPES[1], "long axis")):
        x = draw(setting, shape, "bool")
        order = torch.randperm(shape.sources, generator=torch.Generator().manual_seed(setting.seed))
        want = x.run(setting.kernel)
        shift = deviation(x.sources(order).run(setting.kernel), want)
        figures.append(shift_figure(setting, "permutation of sources", case, shift, largest(want)))
    return figures


def vanishing_carrier(setting: Setting) -> list[Figure]:
    """As a source's carrier shrinks to 0 the outputs tend to those without it."""
    x = draw(setting, SHAPES[0])
    direction = torch.ones((1, 16), device=setting.device, dtype=setting.presence_dtype)

    def out(norm: float) -> Tensor:
        p_BJ = x.p_BJ.clone()
        p_BJ[:, 3] = presence(direction * (norm / 4), 1e-6)
        return replace(x, p_BJ=p_BJ).run(setting.kernel).double()

    gone = out(0.0)
    scores = (x.q_BHSD.double() @ x.k_BhJD.double().mT) * x.scale
    rest = (scores.exp() * x.p_BJ.double()[:, None, None, :]).sum(-1) - scores[..., 3].exp() * (
        x.p_BJ.double()[:, None, None, 3]
    )
    # The source's share is at most its term over the others', and moves two values apart.
    reach = 2 * largest(x.v_BhJD) * largest(scores[..., 3].exp() / rest)
    figures = []
    for norm in (1e-3, 1e-4, 1e-6, 1e-9, 1e-15):
        p = norm**2 / (1e-6 + norm**2)
        excess = max(0.0, deviation(out(norm), gone) - p * reach)
        case = f"|h| {norm:g}, beyond presence x reach"
        figures.append(shift_figure(setting, "vanishing carrier", case, excess, largest(gone)))
    return figures


def extreme_scores(setting: Setting) -> list[Figure]:
    """Scores of +-1e4 overflow nowhere, and compete as the formula says."""
    x = draw(setting, SHAPES[0])
    # 9984 = 128 * 78 is the nearest number to 1e4 that bfloat16 and float16 hold exactly.
    unit = torch.zeros_like(x.q_BHSD[:, :, :1])
    unit[..., 0] = 1.0
    signs = torch.tensor([1.0, -1.0]).to(unit).repeat(7)[:13, None]
    q_BHSD = unit.expand_as(x.q_BHSD) * 128 / x.scale
    cases = {
        "scores +-9984": (q_BHSD, signs * unit * 78),
        "scores 9984": (q_BHSD, unit.expand_as(x.k_BhJD) * 78),
        "scores -9984": (q_BHSD, unit.expand_as(x.k_BhJD) * -78),
    }
    if setting.dtype in (torch.float32, torch.float64):
        aside = x.k_BhJD.masked_fill(unit.bool(), 0.0)
        cases["scores +-9984 and about 1 apart"] = (
            x.q_BHSD.masked_fill(unit.bool(), 0.0) + q_BHSD,
            aside + signs * unit * 78,
        )
    figures = []
    for case, (q_BHSD, k_BhJD) in cases.items():
        y = replace(x, q_BHSD=q_BHSD, k_BhJD=k_BhJD.contiguous())
        want = logarithmic_evaluation(y, 1e-8)
        error = deviation(y.run(setting.kernel), want)
        bound, basis = accuracy_bound(setting, deviation(y.run("naive"), want))
        rounding = 2e4 * torch.finfo(setting.presence_dtype).eps
        if setting.dtype == torch.float64 or "apart" in case:
            bound, basis = max(bound, 4 * rounding), f"{basis}, or 8 roundings of a score of 1e4"
        elif setting.kernel in ("fused_lse", "fused_sink"):
            bound, basis = max(bound, rounding), f"{basis}, or log p rounded beside 1e4"
        ulp = ulp_at(largest(want), setting.dtype)
        figures.append(Figure("extreme scores", case, error, bound, basis, ulp))
    return figures


def poisoned_absent(setting: Setting) -> list[Figure]:
    """NaN and infinity in the keys and values of absent sources change nothing at all."""
    figures = []
    for poison in (float("nan"), float("inf"), float("-inf")):
        shifts = []
        for shape in SHAPES[:2]:
            for style in MASKS:
                x = beside_a_fuller(draw(setting, shape, style))
                absent_B1J1 = (x.p_BJ == 0)[:, None, :, None]
                poisoned = replace(
                    x,
                    k_BhJD=x.k_BhJD.masked_fill(absent_B1J1, poison),
                    v_BhJD=x.v_BhJD.masked_fill(absent_B1J1, poison),
                )
                shifts.append(deviation(poisoned.run(setting.kernel), x.run(setting.kernel)))
        figures.append(zero_figure(setting, "poisoned absent sources", str(poison), worst(shifts)))
    return [*figures, _large_absent(setting)]


def _large_absent(setting: Setting) -> Figure:
    """Keys of absent sources that are ordinary numbers, against queries that are too, just."""
    x = beside_a_fuller(draw(setting, SHAPES[0]))
    largest_number = torch.finfo(setting.dtype).max
    # Where only absent sources have a component, all other scores stay as they are.
    first = torch.zeros(x.q_BHSD.shape[-1], dtype=torch.bool, device=setting.device)
    first[0] = True
    absent_B1J1 = (x.p_BJ == 0)[:, None, :, None]
    x = replace(
        x,
        q_BHSD=x.q_BHSD.masked_fill(first, largest_number**0.9),
        k_BhJD=x.k_BhJD.masked_fill(first, 0.0),
    )
    y = replace(x, k_BhJD=x.k_BhJD.masked_fill(first & absent_B1J1, largest_number**0.2))
    shift = deviation(y.run(setting.kernel), x.run(setting.kernel))
    return zero_figure(setting, "poisoned absent sources", "scores beyond the range", shift)


def gradients(setting: Setting) -> list[Figure]:
    """Gradients are finite with carriers at and near NULL, and 0 at NULL for its carrier."""
    x = draw(setting, SHAPES[0])
    norms = torch.tensor([0.0, 1e-30, 1e-18, 1e-9, 1e-3, 1.0, 1e3, 1e9]).repeat(2)[:13]
    norms_BJ = torch.stack((norms, norms.clamp(min=1e-3)))
    h_BJE = (torch.ones(4) * norms_BJ[..., None]).to(setting.device, setting.presence_dtype)
    h_BJE.requires_grad_()
    leaves = [y.clone().requires_grad_() for y in (x.q_BHSD, x.k_BhJD, x.v_BhJD)]
    p_BJ = presence(h_BJE, 1e-6)
    # The fused kernels give no gradient to presences; then those of q, k and v are what counts.
    through_presence = setting.kernel in ("auto", "naive", "exact", "direct")
    y = replace(
        x,
        q_BHSD=leaves[0],
        k_BhJD=leaves[1],
        v_BhJD=leaves[2],
        p_BJ=p_BJ if through_presence else p_BJ.detach(),
    )
    if not serves(setting.kernel, y):
        return []
    out = y.run(setting.kernel).sum()
    inputs = [*leaves, h_BJE] if through_presence else leaves
    grads = torch.autograd.grad(out, inputs)
    bad = float(sum(int((~grad.isfinite()).sum()) for grad in grads))
    figures = [zero_figure(setting, "gradients", "count of non-finite", bad)]
    if through_presence:
        at_null = largest(grads[-1][norms_BJ == 0])
        figures.append(zero_figure(setting, "gradients", "of a NULL carrier", at_null))
    return figures


ATTENTION_LAWS: dict[str, Callable[[Setting], list[Figure]]] = {
    law.__name__: law
    for law in (
        agreement,
        null_receiver,
        empty_support,
        some_rows_masked,
        softmax_limit,
        permutation,
        vanishing_carrier,
        extreme_scores,
        poisoned_absent,
        gradients,
    )
}
