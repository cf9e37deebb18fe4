"""Which kernel serves an attention: one function, from sizes and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch

from retrofit.ops.errors import KernelUnavailableError

if TYPE_CHECKING:
    from retrofit.words import EpsMode

Backend: TypeAlias = Literal["auto", "naive", "exact", "direct", "fused", "fused_lse", "fused_sink"]
KernelName: TypeAlias = Literal["naive", "exact", "direct", "fused_lse", "fused_sink"]

BACKENDS = ("auto", "naive", "exact", "direct", "fused", "fused_lse", "fused_sink")

# CPU with AVX-512, float32, 6 heads of 32: below 16 sources, one vector, direct takes 0.2 to 0.9 of
# the time of fused_lse; from 16 to 24, 0.4 to 1.1 on two threads and 0.8 to 1.4 on one.
DIRECT_MAX_SOURCES = 24

CUDA_WIDTH = 4
"""Head widths of the memory-efficient kernel in float32 are multiples of it: rows of 16 bytes."""

_FUSED_DTYPES = {
    "cpu": (torch.float32, torch.bfloat16, torch.float16, torch.float64),
    # Narrower dtypes would force log p into the same dtype and lose the small presences.
    "cuda": (torch.float32,),
}


@dataclass(frozen=True)
class AttentionRequest:
    """What the choice of a kernel depends on; holds no tensors."""

    sources: int
    """Those that are left once absent ones are dropped."""
    head_dim: int
    value_dim: int
    dtype: torch.dtype
    device_type: str
    needs_grad: bool
    """Gradients flow to queries, keys or values."""
    bias_needs_grad: bool
    """Gradients flow to the presence of sources or to a float mask."""
    eps_mode: EpsMode
    compiling: bool


@dataclass(frozen=True)
class KernelChoice:
    """The kernel that serves a request, and why in one sentence."""

    name: KernelName
    reason: str


_BIAS_GRAD = KernelChoice("direct", "gradients flow to presence or mask; fused kernels give none")
_RELATIVE = KernelChoice("direct", "a relative eps needs each receiver's largest term")
_WIDTHS = KernelChoice("direct", "the fused kernels need keys and values of one width")
_SHORT = KernelChoice("direct", f"at most {DIRECT_MAX_SOURCES} sources: fewer passes win on a CPU")
_OTHER = KernelChoice("direct", "no fused kernel takes this dtype or width on this device")
_GRAD = KernelChoice("fused_sink", "gradients are needed, and the log-sum-exp carries none")
_COMPILED = KernelChoice("fused_sink", "torch.compile is tracing, so private kernels are avoided")
_NO_LSE = KernelChoice("fused_sink", "this torch has no CPU flash kernel that returns log-sum-exp")
_CUDA = KernelChoice("fused_sink", "CUDA's memory-efficient kernel takes the presence bias")
_LSE = KernelChoice("fused_lse", "the CPU flash kernel returns log-sum-exp: nothing is copied")


def choose_kernel(request: AttentionRequest, backend: Backend = "auto") -> KernelChoice:
    """Return the kernel that serves ``request``.

    Raises:
        KernelUnavailableError: ``backend`` names a kernel that cannot serve this request, or none.
    """
    if backend == "auto":
        return _choose(request)
    if backend in ("naive", "exact", "direct"):
        return KernelChoice(backend, "asked for")
    if backend not in BACKENDS:
        raise KernelUnavailableError(f"no attention kernel {backend!r}; there are {BACKENDS}")
    if obstacle := _fused_obstacle(request):
        raise KernelUnavailableError(
            f"attention kernel {backend!r} cannot serve this request: {obstacle}; "
            "use backend='auto' or 'direct'"
        )
    if backend == "fused_sink":
        return KernelChoice("fused_sink", "asked for")
    instead = _lse_obstacle(request)
    if backend == "fused_lse" and instead:
        raise KernelUnavailableError(
            f"attention kernel 'fused_lse' cannot serve this request: {instead.reason}; "
            "use backend='fused'"
        )
    return instead or _LSE


def _choose(request: AttentionRequest) -> KernelChoice:
    if request.bias_needs_grad:
        return _BIAS_GRAD
    if request.eps_mode == "relative":
        return _RELATIVE
    if request.head_dim != request.value_dim:
        return _WIDTHS
    if request.device_type == "cpu" and request.sources <= DIRECT_MAX_SOURCES:
        return _SHORT
    if _fused_obstacle(request):
        return _OTHER
    return _lse_obstacle(request) or _LSE


def _fused_obstacle(request: AttentionRequest) -> str:
    """Say why torch's fused attention cannot serve ``request``; empty if it can."""
    if request.bias_needs_grad:
        return "it gives no gradient to presence or mask"
    if request.eps_mode == "relative":
        return "a relative eps needs each receiver's largest term"
    if request.head_dim != request.value_dim:
        return f"keys are {request.head_dim} wide but values {request.value_dim}"
    if request.dtype not in _FUSED_DTYPES.get(request.device_type, ()):
        return f"no fused kernel takes a float32 presence bias for {request.dtype} on " + (
            request.device_type
        )
    if request.device_type == "cuda" and request.head_dim % CUDA_WIDTH:
        return f"CUDA's kernel needs heads of a multiple of {CUDA_WIDTH}, not {request.head_dim}"
    return ""


def _lse_obstacle(request: AttentionRequest) -> KernelChoice | None:
    """Return the choice that replaces the log-sum-exp kernel where it cannot serve."""
    if request.device_type != "cpu":
        return _CUDA
    if request.compiling:
        return _COMPILED
    if request.needs_grad:
        return _GRAD
    from retrofit.ops.attention.fused import has_flash_lse

    return None if has_flash_lse() else _NO_LSE
