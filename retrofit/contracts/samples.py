"""Seeded inputs of the attention laws; the same numbers on every device.

Shapes: B batch, S receivers, J sources, H heads, h kv heads, D head width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

from retrofit.ops import Backend, EpsMode, KernelUnavailableError, oattention

if TYPE_CHECKING:
    from retrofit.contracts.figures import Setting


class Shape(NamedTuple):
    """Sizes of one attention."""

    batch: int
    heads: int
    kv_heads: int
    receivers: int
    sources: int
    width: int


# A short and a long source axis (longer than a block of the flash kernel), and a single source.
SHAPES = (Shape(2, 4, 4, 7, 13, 16), Shape(1, 4, 2, 5, 700, 16), Shape(3, 2, 1, 1, 1, 8))

MaskStyle = Literal["none", "bool", "float", "per_key"]
MASKS: tuple[MaskStyle, ...] = ("none", "bool", "float", "per_key")


@dataclass(frozen=True)
class Sample:
    """The tensors of one attention."""

    q_BHSD: Tensor
    k_BhJD: Tensor
    v_BhJD: Tensor
    p_BS: Tensor
    p_BJ: Tensor
    mask: Tensor | None = None

    @property
    def scale(self) -> float:
        """Factor of the scores."""
        return float(self.q_BHSD.shape[-1] ** -0.5)

    def run(self, kernel: Backend, eps_den: float = 1e-8, eps_mode: EpsMode = "absolute") -> Tensor:
        """Return OAttention of the sample by ``kernel``."""
        return oattention(
            self.q_BHSD,
            self.k_BhJD,
            self.v_BhJD,
            self.p_BS,
            self.p_BJ,
            mask=self.mask,
            eps_den=eps_den,
            eps_mode=eps_mode,
            backend=kernel,
        )

    def sources(self, order: Tensor) -> Sample:
        """Return the sample with its sources taken in ``order``, which may drop or repeat some."""
        mask = self.mask
        if mask is not None and mask.shape[-1] > 1:
            mask = mask[..., order]
        return replace(
            self,
            k_BhJD=self.k_BhJD[:, :, order],
            v_BhJD=self.v_BhJD[:, :, order],
            p_BJ=self.p_BJ[:, order],
            mask=mask,
        )


def draw(setting: Setting, shape: Shape, mask: MaskStyle = "none") -> Sample:
    """Return a sample with scores near 1, values within (-1.75, 1.75) and presences in [0, 1].

    About one token in eight is absent, and as many have a presence near 1e-12; the first source
    of each row is always there.
    """
    generator = torch.Generator().manual_seed(setting.seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64)

    def uniform(*size: int) -> Tensor:
        return torch.rand(size, generator=generator, dtype=torch.float64)

    def presences(tokens: int) -> Tensor:
        p, kind = uniform(shape.batch, tokens), uniform(shape.batch, tokens)
        p = torch.where(kind < 1 / 8, 0.0, torch.where(kind > 7 / 8, p * 1e-12, p))
        p[:, :1] = 0.5
        return p.to(setting.device, setting.presence_dtype)

    batch, heads, kv_heads, receivers, sources, width = shape
    q, k = normal(batch, heads, receivers, width), normal(batch, kv_heads, sources, width)
    v = (uniform(batch, kv_heads, sources, width) * 2 - 1) * 1.75
    q, k, v = (x.to(setting.device, setting.dtype) for x in (q, k, v))
    full = uniform(batch, 1, receivers, sources)
    styles: dict[MaskStyle, Tensor | None] = {
        "none": None,
        "bool": full > 0.4,
        "float": (full * 2 - 0.5).clamp(0, 1).to(setting.presence_dtype),
        "per_key": full[:, :, :1] > 0.4,
    }
    m = styles[mask]
    m = None if m is None else m.to(setting.device)
    return Sample(q, k, v, presences(receivers), presences(sources), m)


def with_null_sources(x: Sample, positions: list[int], seed: int) -> Sample:
    """Return the sample with a NULL source before each of ``positions`` of the old source axis.

    NULL sources have presence 0; their keys and values are arbitrary finite numbers, as biased
    projections make them. They are visible to all where there is a mask.
    """
    old = x.p_BJ.shape[1]
    slots = sorted(
        [*((position, True) for position in positions), *((j, False) for j in range(old))],
        key=lambda slot: (slot[0], not slot[1]),
    )
    order = torch.tensor([min(j, old - 1) for j, _ in slots])
    null = torch.tensor([is_null for _, is_null in slots])
    wide = x.sources(order)
    generator = torch.Generator().manual_seed(seed)

    def fill(y: Tensor) -> Tensor:
        noise = torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y)
        return torch.where(null.to(y.device)[:, None], noise, y)

    mask = wide.mask
    if mask is not None:
        visible = torch.ones((), dtype=mask.dtype, device=mask.device)
        mask = torch.where(null.to(mask.device), visible, mask)
    return replace(
        wide,
        k_BhJD=fill(wide.k_BhJD),
        v_BhJD=fill(wide.v_BhJD),
        p_BJ=wide.p_BJ.masked_fill(null.to(wide.p_BJ.device), 0.0),
        mask=mask,
    )


def everyone_present(x: Sample) -> Sample:
    """Return the sample with every source present, so that none of them is moved or dropped."""
    return replace(x, p_BJ=x.p_BJ.masked_fill(x.p_BJ == 0, 0.5))


def beside_a_fuller(x: Sample) -> Sample:
    """Return the sample and, as one more batch element, its last with every source present."""
    order = torch.tensor([*range(x.p_BJ.shape[0]), -1])
    p_BJ = torch.cat((x.p_BJ, everyone_present(x).p_BJ[-1:]))
    mask = x.mask if x.mask is None or x.mask.shape[0] == 1 else x.mask[order]
    return Sample(x.q_BHSD[order], x.k_BhJD[order], x.v_BhJD[order], x.p_BS[order], p_BJ, mask)


def obstacle(kernel: Backend, x: Sample, eps_mode: EpsMode = "absolute") -> str:
    """Say why ``kernel`` cannot run the sample; empty if it can."""
    try:
        x.run(kernel, eps_mode=eps_mode)
    except KernelUnavailableError as error:
        return str(error)
    return ""


def serves(kernel: Backend, x: Sample, eps_mode: EpsMode = "absolute") -> bool:
    """Say whether ``kernel`` can run the sample."""
    return not obstacle(kernel, x, eps_mode)
