"""OAttention evaluated twice more, in float64 and apart from the operators that are judged by it.

Blocks and other modules are in ``block_reference.py``.

Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from retrofit.contracts.samples import Sample


def direct_evaluation(x: Sample, eps_den: float = 0.0, relative: bool = False) -> Tensor:
    """Return the formula term by term, unshifted: for scores below about 700.

    ``p_i * sum_j m_ij p_j exp(s_ij) v_j / (eps + sum_j m_ij p_j exp(s_ij))``, in float64 numpy.
    """
    scores, weights, values = _parts(x)
    terms = weights * np.exp(scores)
    eps = eps_den * terms.max(-1, keepdims=True, initial=0.0) if relative else eps_den
    mass = eps + terms.sum(-1, keepdims=True)
    shares = np.divide(terms, mass, out=np.zeros_like(terms), where=mass > 0)
    return _gated(x, shares, values)


def logarithmic_evaluation(x: Sample, eps_den: float) -> Tensor:
    """Return the formula through ``logaddexp``: for scores of any size."""
    scores, weights, values = _parts(x)
    with np.errstate(divide="ignore"):
        terms = scores + np.log(weights)
    mass = np.logaddexp.reduce(terms, -1, keepdims=True, initial=np.log(eps_den))
    return _gated(x, np.exp(terms - mass), values)


def _parts(x: Sample) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q, k, v = (_double(y) for y in (x.q_BHSD, x.k_BhJD, x.v_BhJD))
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(y, groups, axis=1) for y in (k, v))
    scores = np.einsum("bhsd,bhjd->bhsj", q, k) * x.scale
    weights = _double(x.p_BJ)[:, None, None, :]
    if x.mask is not None:
        weights = weights * _double(x.mask)
    return scores, np.broadcast_to(weights, scores.shape), v


def _gated(x: Sample, shares: np.ndarray, values: np.ndarray) -> Tensor:
    out = np.einsum("bhsj,bhjd->bhsd", shares, values)
    return torch.from_numpy(out * _double(x.p_BS)[:, None, :, None])


def _double(y: Tensor) -> np.ndarray:
    array: np.ndarray = y.double().cpu().numpy()
    return array
