"""Blocks evaluated in float64 from the paper's formulas, apart from all code that they judge.

What a token emits is gated by its presence, what it sends to others is weighted by it:

    p(h)  = |h|^2 / (tau + |h|^2)
    a_i   = p_i * W_o concat_heads(sum_j p_j exp(s_ij) v_j / (eps + sum_j p_j exp(s_ij)))
    norm  = p(h) * norm(h)           ffn = h + p(h) * ffn(norm(h))

Numpy and plain loops; only feed-forward networks and factors on queries, which stock has too, are
run as they are, in float64.

Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width, E model width.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from retrofit.hosts.anatomy import AttentionStep, FeedForwardStep, NormStep

if TYPE_CHECKING:
    from retrofit.hosts.anatomy import Specimen, Step

Array: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


def evaluate(specimen: Specimen, receivers_BSE: Tensor, sources_BJE: Tensor) -> Tensor:
    """New carriers of the receivers, (B, S, E) in float64."""
    dtype = receivers_BSE.dtype
    h_BSE, sources = double(receivers_BSE), double(sources_BJE)
    for step in specimen.steps:
        around = h_BSE if specimen.own_sources else sources
        h_BSE = _after(step, h_BSE, around, specimen, dtype)
    return torch.from_numpy(h_BSE)


def _after(
    step: Step, h_BSE: Array, sources_BJE: Array, specimen: Specimen, dtype: torch.dtype
) -> Array:
    if isinstance(step, AttentionStep):
        p_BS = presence(h_BSE, specimen.tau[step.stream])
        p_BJ = presence(sources_BJE, specimen.tau[step.sources])
        x_BSE = normed(step.receiver_norm, h_BSE, p_BS if step.gated_norms else None, dtype)
        y_BJE = normed(step.source_norm, sources_BJE, p_BJ if step.gated_norms else None, dtype)
        update_BSE = _attention(step, x_BSE, y_BJE, p_BS, p_BJ, specimen.eps_den, dtype)
        return h_BSE + p_BS[..., None] * update_BSE
    if isinstance(step, FeedForwardStep):
        p_BS = presence(h_BSE, specimen.tau[step.stream]) if step.gated else np.ones(1)
        x_BSE = normed(step.norm, h_BSE, p_BS if step.gated_norm else None, dtype)
        return h_BSE + p_BS[..., None] * as_it_is(step.ffn, x_BSE)
    assert isinstance(step, NormStep)
    p = presence(h_BSE, specimen.tau[step.stream]) if step.gated else None
    return normed(step.norm, h_BSE, p, dtype)


def presence(h: Array, tau: float) -> Array:
    """``|h|^2 / (tau + |h|^2)``, (..., E) -> (...)."""
    n = np.einsum("...e,...e->...", h, h)
    out: Array = n / (tau + n)
    return out


def normed(norm: nn.Module | None, h: Array, p: Array | None, dtype: torch.dtype) -> Array:
    """``p * norm(h)``, or ``norm(h)`` without ``p``; the norm of a host that runs in ``dtype``."""
    x = h if norm is None else _norm(norm, h, dtype)
    return x if p is None else p[..., None] * x


def _norm(norm: nn.Module, h: Array, dtype: torch.dtype) -> Array:
    # A norm's own forward may be a twin's, so it is told by its class, and never called.
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm), f"no formula for {type(norm).__name__}"
    eps = torch.finfo(dtype).eps if norm.eps is None else norm.eps
    centre = h.mean(-1, keepdims=True) if isinstance(norm, nn.LayerNorm) else 0.0
    x = h - centre
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    if norm.weight is not None:
        x = x * double(norm.weight)
    bias = getattr(norm, "bias", None)
    shift: Array | float = 0.0 if bias is None else double(bias)
    out: Array = x + shift
    return out


def _attention(
    step: AttentionStep,
    x_BSE: Array,
    y_BJE: Array,
    p_BS: Array,
    p_BJ: Array,
    eps_den: float,
    dtype: torch.dtype,
) -> Array:
    q, k, v, out = step.projections
    width = q.weight.shape[0] // step.heads
    q_BSHD, k_BJhD, v_BJhD = (
        _linear(linear, tokens).reshape(*tokens.shape[:2], -1, width)
        for linear, tokens in ((q, x_BSE), (k, y_BJE), (v, y_BJE))
    )
    if step.kv_heads is not None:
        k_BJhD, v_BJhD = k_BJhD[:, :, : step.kv_heads], v_BJhD[:, :, : step.kv_heads]
    if step.rotary is not None:
        q_BSHD = _rotated(step.rotary, q_BSHD, _counted(step, p_BS))
        k_BJhD = _rotated(step.rotary, k_BJhD, _counted(step, p_BJ))
    if step.head_norms is not None:
        of_queries, of_keys = step.head_norms
        q_BSHD, k_BJhD = _norm(of_queries, q_BSHD, dtype), _norm(of_keys, k_BJhD, dtype)
    if step.scaling is not None:
        counts_B = _counted(step, p_BJ).sum(-1)
        scaled = [
            as_it_is(step.scaling, q_BSHD[b : b + 1], int(count))
            for b, count in enumerate(counts_B)
        ]
        q_BSHD = np.concatenate(scaled)
    batch, receivers, heads, _ = q_BSHD.shape
    group = heads // k_BJhD.shape[2]
    out_BSHD = np.zeros(q_BSHD.shape)
    for b in range(batch):
        for head in range(heads):
            k_JD, v_JD = k_BJhD[b, :, head // group], v_BJhD[b, :, head // group]
            for i in range(receivers):
                mass_J = p_BJ[b] * np.exp(k_JD @ q_BSHD[b, i, head] / math.sqrt(width))
                total = eps_den + mass_J.sum()
                if total > 0:
                    out_BSHD[b, i, head] = mass_J @ v_JD / total
    update = _linear(out, out_BSHD.reshape(batch, receivers, heads * width))
    supported_B11 = (p_BJ.max(-1, initial=0.0) > 0).reshape(-1, 1, 1)
    return np.where(supported_B11, update, 0.0)


def _linear(linear: Any, x: Array) -> Array:
    bias = 0.0 if linear.bias is None else double(linear.bias)
    out: Array = np.einsum("...e,fe->...f", x, double(linear.weight)) + bias
    return out


def _counted(step: AttentionStep, p: Array) -> Array:
    """Which tokens count where tokens are counted, 1 or 0: all, or the present ones."""
    out: Array = np.where((p > 0) | (not step.among_present), 1.0, 0.0)
    return out


def _rotated(rotary: Any, t_BSHD: Array, counted_BS: Array) -> Array:
    """Turn the pairs (d, d + D/2) of a token by ``s * freqs[d]``, s counted tokens before it."""
    assert not rotary.interleaved
    out, half = np.empty(t_BSHD.shape), t_BSHD.shape[-1] // 2
    for b, token in np.ndindex(t_BSHD.shape[:2]):
        turn = np.exp(1j * counted_BS[b, :token].sum() * double(rotary.freqs))
        turned = (t_BSHD[b, token, :, :half] + 1j * t_BSHD[b, token, :, half:]) * turn
        out[b, token] = np.concatenate((turned.real, turned.imag), axis=-1)
    return out


def as_it_is(module: Any, *arguments: Any) -> Array:
    """What a module that has no gate gives in float64."""
    wide = copy.deepcopy(module).double().cpu()
    tensors = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in arguments]
    with torch.no_grad():
        return double(wide(*tensors))


def double(x: Any) -> Array:
    """The numbers of a tensor, in float64."""
    out: Array = x.detach().double().cpu().numpy()
    return out
