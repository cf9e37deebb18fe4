"""Laws of OAttention, measured for one kernel at one dtype.

Shapes: B batch, S receivers, J sources, H heads, D head width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from retrofit.contracts.figures import Figure, Setting, deviation, largest, ulp_at, worst
from retrofit.contracts.reference import direct_evaluation, logarithmic_evaluation
from retrofit.contracts.samples import MASKS, SHAPES, Sample, Shape, draw, serves, with_null_sources
from retrofit.ops import Backend, EpsMode, presence

if TYPE_CHECKING:
    from collections.abc import Callable

# Inputs per shape and mask, over which the largest error is taken.
DRAWS = 6
# Exact rounds once: half a unit in the last place below 2, and as much again for rare ties, which
# is 8.94e-8 in float32, the paper's figure.
EXACT_ULPS = 0.75
# Naive and its reference sum up to 700 rounded terms in different orders, after rounded scores.
NAIVE_ULPS = 8.0

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
            bound, basis = _accuracy(setting, worst(naive_errors))
            ulp = ulp_at(scale, setting.dtype)
            figures.append(Figure("agreement", case, worst(errors), bound, basis, ulp))
    return figures


def null_receiver(setting: Setting) -> list[Figure]:
    """Receivers of presence 0 get exactly 0, whatever their queries."""
    x = draw(setting, SHAPES[0])
    out_BHSD = replace(x, p_BS=torch.zeros_like(x.p_BS)).run(setting.kernel)
    return [_exact(setting, "null receiver", "every receiver NULL", largest(out_BHSD))]


def null_source_insertion(setting: Setting) -> list[Figure]:
    """NULL sources inserted anywhere change no output."""
    figures = []
    for shape, length in ((SHAPES[0], "short"), (SHAPES[1], "long")):
        for case, insertions in _insertions(shape.sources).items():
            shifts, scale = [], 0.0
            for style in MASKS:
                x = draw(setting, shape, style)
                before = x.run(setting.kernel)
                scale = max(scale, largest(before))
                for positions in insertions:
                    after = with_null_sources(x, positions, setting.seed).run(setting.kernel)
                    shifts.append(deviation(after, before))
            case = f"{case}, {length} axis"
            figures.append(_shift(setting, "null source insertion", case, worst(shifts), scale))
    return figures


def masked_insertion_in_torch(setting: Setting) -> list[Figure]:
    """Measure the same insertions in torch's own attention, the new sources masked away.

    A control: how steady softmax attention of this dtype is where a source cannot matter.
    """
    figures = []
    for shape, length in ((SHAPES[0], "short"), (SHAPES[1], "long")):
        x = draw(setting, shape)
        x = replace(x, p_BJ=torch.ones_like(x.p_BJ))
        before = _torch_attention(x)
        for case, insertions in _insertions(shape.sources).items():
            wide = [with_null_sources(x, positions, setting.seed) for positions in insertions]
            shift = worst([deviation(_torch_attention(y), before) for y in wide])
            law, case = "control: torch's attention, source masked", f"{case}, {length} axis"
            figures.append(_shift(setting, law, case, shift, largest(before)))
    return figures


def _insertions(sources: int) -> dict[str, list[list[int]]]:
    every = range(sources + 1) if sources < 100 else range(0, sources + 1, 100)
    return {
        "end": [[sources]],
        "middle": [[sources // 2]],
        "several": [[0, 1, sources // 2, sources // 2, sources]],
        "every position": [[position] for position in every],
    }


def _torch_attention(x: Sample) -> Tensor:
    visible_B11J = (x.p_BJ > 0)[:, None, None, :]
    groups = x.q_BHSD.shape[1] // x.k_BhJD.shape[1]
    k_BHJD, v_BHJD = (y.repeat_interleave(groups, 1) for y in (x.k_BhJD, x.v_BhJD))
    return F.scaled_dot_product_attention(x.q_BHSD, k_BHJD, v_BHJD, attn_mask=visible_B11J)


def self_attention_insertion(setting: Setting) -> list[Figure]:
    """A NULL token inserted as receiver and source changes nothing and gets exactly 0."""
    x = draw(setting, Shape(2, 4, 4, 12, 12, 16))
    position = 5
    before = replace(x, p_BS=x.p_BJ).run(setting.kernel)
    wide = with_null_sources(x, [position], setting.seed)
    order = torch.tensor([*range(position), 0, *range(position, 12)])
    after = replace(wide, q_BHSD=x.q_BHSD[:, :, order], p_BS=wide.p_BJ).run(setting.kernel)
    old = torch.arange(13) != position
    law, shift = "self-attention insertion", deviation(after[:, :, old], before)
    return [
        _shift(setting, law, "old tokens", shift, largest(before)),
        _exact(setting, law, "NULL token", largest(after[:, :, ~old])),
    ]


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
        figures.append(_exact(setting, "empty support", case, worst(outs)))
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
        _exact(setting, law, "masked receivers", largest(out[:, :, ::2])),
        _shift(setting, law, "other receivers", shift, largest(free)),
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
    bound, basis = _accuracy(setting, worst(naive_errors))
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
        figures.append(_shift(setting, "permutation of sources", case, shift, largest(want)))
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
        figures.append(_shift(setting, "vanishing carrier", case, excess, largest(gone)))
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
        bound, basis = _accuracy(setting, deviation(y.run("naive"), want))
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
                x = draw(setting, shape, style)
                absent_B1J1 = (x.p_BJ == 0)[:, None, :, None]
                poisoned = replace(
                    x,
                    k_BhJD=x.k_BhJD.masked_fill(absent_B1J1, poison),
                    v_BhJD=x.v_BhJD.masked_fill(absent_B1J1, poison),
                )
                shifts.append(deviation(poisoned.run(setting.kernel), x.run(setting.kernel)))
        figures.append(_exact(setting, "poisoned absent sources", str(poison), worst(shifts)))
    return figures


def gradients(setting: Setting) -> list[Figure]:
    """Gradients are finite with carriers at and near NULL, and 0 at NULL for its carrier."""
    x = draw(setting, SHAPES[0])
    norms = torch.tensor([0.0, 1e-30, 1e-18, 1e-9, 1e-3, 1.0, 1e3, 1e9]).repeat(2)[:13]
    h_BJE = (torch.ones(2, 13, 4) * norms[:, None]).to(setting.device, setting.presence_dtype)
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
    figures = [_exact(setting, "gradients", "count of non-finite", bad)]
    if through_presence:
        at_null = largest(grads[-1][:, norms == 0])
        figures.append(_exact(setting, "gradients", "of a NULL carrier", at_null))
    return figures


def _accuracy(setting: Setting, naive_error: float) -> tuple[float, str]:
    """Return the bound of a deviation from the truth, for values below 2, and its basis."""
    eps = torch.finfo(setting.dtype).eps
    kernel: Backend = setting.kernel
    if kernel == "naive" or (kernel == "exact" and setting.dtype == torch.float64):
        return NAIVE_ULPS * eps, f"{NAIVE_ULPS:g} ulp at 1"
    if kernel == "exact":
        return EXACT_ULPS * eps, f"{EXACT_ULPS:g} ulp at 1"
    if setting.dtype == torch.float64:
        # The reference rounds in float64 too, so twice a lucky error proves nothing.
        floor = NAIVE_ULPS * eps
        return max(2 * naive_error, floor), f"twice the naive error, at least {NAIVE_ULPS:g} ulp"
    return max(2 * naive_error, eps), "twice the naive error, at least 1 ulp at 1"


def _shift(setting: Setting, law: str, case: str, shift: float, scale: float) -> Figure:
    """Return a figure for outputs that should not move, computed with differently shaped products.

    Where the kernel computes in a wider type than it returns, nothing but a rounding can flip.
    Otherwise matrix products and sums of another length round scores and means differently, as
    they do in torch's own attention (see ``masked_insertion_in_torch``).
    """
    ulp = ulp_at(scale, setting.dtype)
    half = setting.dtype in (torch.bfloat16, torch.float16)
    wider = (half and setting.kernel != "naive") or (
        setting.kernel == "exact" and setting.dtype != torch.float64
    )
    eps = torch.finfo(setting.dtype).eps
    if wider and setting.kernel in ("fused_lse", "fused_sink"):
        basis = "2 ulp of the values' scale: the fused kernel rounds weights to the dtype"
        return Figure(law, case, shift, 2 * eps, basis, ulp)
    if wider:
        return Figure(law, case, shift, ulp, "1 ulp of the output's scale", ulp)
    return Figure(law, case, shift, 4 * eps, "4 ulp of the values' scale", ulp)


def _exact(setting: Setting, law: str, case: str, linf: float) -> Figure:
    return Figure(law, case, linf, 0.0, "exactly 0", torch.finfo(setting.dtype).eps)


ATTENTION_LAWS: dict[str, Callable[[Setting], list[Figure]]] = {
    law.__name__: law
    for law in (
        agreement,
        null_receiver,
        null_source_insertion,
        self_attention_insertion,
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
