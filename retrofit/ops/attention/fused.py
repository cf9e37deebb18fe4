"""OAttention through torch's fused kernels: memory grows with S + J, never with S x J.

(A mask that differs by receiver is S x J itself, and so is the bias that is made of it.)

``log p`` is an additive bias on the scores. ``eps_den`` is one more source with score
``log eps_den`` and value zero. Either it is appended to the keys (``fused_sink``), or the output
is rescaled by the mass it takes, which the log-sum-exp tells (``fused_lse``):

    out = flash(q, k, v) * sigmoid(lse - log eps_den)

``log p`` is rounded at the size of the score that it is added to, so beside float32 scores of 1e4
presences are right to 1e-3; the other kernels have no such loss.

Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel


def fused_lse(
    q_BHSD: Tensor, k_BhJD: Tensor, v_BhJD: Tensor, bias_BHSJ: Tensor, eps: float, scale: float
) -> tuple[Tensor, Tensor | None]:
    """Return the plain attention and the factor (B, H, S) that the eps sink scales it by."""
    out_BHSD, lse_BHS = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        _rows(q_BHSD), _rows(k_BhJD), _rows(v_BhJD), attn_mask=_rows(bias_BHSJ), scale=scale
    )
    if eps == 0.0:
        return out_BHSD, None
    # A receiver without support has out 0 and lse 0, so its factor does not matter.
    return out_BHSD, torch.sigmoid(lse_BHS - math.log(eps))


def fused_sink(
    q_BHSD: Tensor, k_BhJD: Tensor, v_BhJD: Tensor, bias_BHSJ: Tensor, eps: float, scale: float
) -> Tensor:
    """Return the attention with the eps sink inside, through the public fused kernel.

    The kernel is pinned, so torch can never fall back to the one that builds S x J scores.
    """
    grouped = k_BhJD.shape[1] != q_BHSD.shape[1]
    if grouped and q_BHSD.device.type == "cuda":
        groups = q_BHSD.shape[1] // k_BhJD.shape[1]
        k_BhJD, v_BhJD = (x.repeat_interleave(groups, 1) for x in (k_BhJD, v_BhJD))
        grouped = False
    if eps > 0.0:
        k_BhJD, v_BhJD = F.pad(k_BhJD, (0, 0, 0, 1)), F.pad(v_BhJD, (0, 0, 0, 1))
        bias_BHSJ = F.pad(bias_BHSJ, (0, 1), value=math.log(eps))
    kernel = SDPBackend.FLASH_ATTENTION
    if q_BHSD.device.type == "cuda":
        kernel = SDPBackend.EFFICIENT_ATTENTION
    with sdpa_kernel(kernel):
        out_BHSD = F.scaled_dot_product_attention(
            _rows(q_BHSD),
            _rows(k_BhJD),
            _rows(v_BhJD),
            attn_mask=_rows(bias_BHSJ),
            scale=scale,
            enable_gqa=grouped,
        )
    if eps > 0.0:
        return out_BHSD
    # Fused kernels differ in what they give a receiver without support; the formula gives 0.
    dead_BHS1 = (bias_BHSJ == -torch.inf).all(-1, keepdim=True)
    return out_BHSD.masked_fill(dead_BHS1, 0.0)


@cache
def has_flash_lse() -> bool:
    """Say whether this torch has the private CPU flash kernel, with the result we rely on."""
    # A thread of its own: the first caller's autocast, inference mode, default device, tracing
    # and transforms hold in the caller's thread only, and must not decide for all later ones.
    with ThreadPoolExecutor(max_workers=1) as own_thread:
        return own_thread.submit(_flash_lse_works).result()


def _flash_lse_works() -> bool:
    op = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
    if op is None:
        return False
    generator = torch.Generator("cpu").manual_seed(0)
    q, k, v = (torch.randn(1, h, 3, 4, generator=generator, dtype=torch.float32) for h in (2, 1, 1))
    bias = torch.tensor(
        [[[[0.0, -1.0, -torch.inf], [-torch.inf] * 3, [0.0, 0.0, 0.0]]]], dtype=torch.float32
    )
    try:
        out, lse = op(q, k, v, attn_mask=bias, scale=0.5)
    except (RuntimeError, TypeError):
        return False
    scores = q @ k.mT * 0.5 + bias
    alive = torch.tensor([True, False, True])
    want_lse = torch.logsumexp(scores, -1)
    want = scores.softmax(-1).nan_to_num(0.0) @ v
    return bool(
        torch.allclose(out, want, atol=1e-5)
        and torch.allclose(lse[..., alive], want_lse[..., alive], atol=1e-5)
    )


def _rows(x: Tensor) -> Tensor:
    # The fused kernels read rows of stride 1; the private one does not check.
    # Not contiguous(), which keeps any stride of an axis of size 1.
    return x if x.stride(-1) == 1 else x.clone(memory_format=torch.contiguous_format)
