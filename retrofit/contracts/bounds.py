"""How far a measured figure of an attention law may lie from its truth, and why.

Values are below 2, so one ulp at 1 is ``eps`` of the dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from retrofit.contracts.figures import Figure, Setting, ulp_at

if TYPE_CHECKING:
    from retrofit.ops import Backend

# Exact rounds a value below 2 once, half an ulp at 1, after arithmetic in the next wider dtype. The
# bound is the paper's figure for its operator, 8.94e-8 in float32.
EXACT_ULPS = 0.75
# Naive and its reference sum up to 700 rounded terms in different orders, after rounded scores.
NAIVE_ULPS = 8.0


def accuracy_bound(setting: Setting, naive_error: float) -> tuple[float, str]:
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


def shift_figure(setting: Setting, law: str, case: str, shift: float, scale: float) -> Figure:
    """Return a figure for outputs that should not move, computed with differently shaped products.

    Where the kernel computes in a wider type than it returns, nothing but a rounding can flip.
    Otherwise matrix products and sums of another length round scores and means differently, as
    they do in torch's own attention (see ``insertion_laws.masked_insertion_in_torch``).
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


def zero_figure(setting: Setting, law: str, case: str, linf: float) -> Figure:
    """Return a figure that must be 0 to the last bit."""
    return Figure(law, case, linf, 0.0, "exactly 0", torch.finfo(setting.dtype).eps)
