"""What a twin consists of, told so that the laws can write its formula down by themselves.

A generation shows one specimen of each way in which its twins run; ``retrofit.contracts`` runs
it beside a formula of its own over the same weights.

Shapes: B batch, S receivers, J sources, H heads, D head width, E model width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor, nn

    from retrofit.hosts.rotary import Rotary


@dataclass(frozen=True)
class AttentionStep:
    """``h + p * out(attention(norm(h), norm(sources)))``, or without norms."""

    projections: tuple[Any, Any, Any, Any]
    """``nn.Linear`` of queries, keys, values and the output, with or without bias."""
    heads: int
    stream: str
    """Stream of the receivers' carriers."""
    sources: str
    """Stream of the sources' carriers."""
    receiver_norm: nn.Module | None = None
    source_norm: nn.Module | None = None
    gated_norms: bool = False
    """Whether the norms are sites as well."""
    kv_heads: int | None = None
    """How many of the heads of keys and values are read; None for all."""
    scaling: Callable[[Tensor, int], Tensor] | None = None
    """Stock's factor on queries (B, S, H, D), from their values and the number of sources."""
    rotary: Rotary | None = None
    head_norms: tuple[nn.Module, nn.Module] | None = None
    """Norms over D of queries and of keys, after rotation and before scaling."""
    among_present: bool = False
    """Whether positions and the number of sources count the present tokens only."""


@dataclass(frozen=True)
class FeedForwardStep:
    """``h + p * ffn(norm(h))``, or without norm, or without gate."""

    ffn: nn.Module
    stream: str
    norm: nn.Module | None = None
    gated: bool = True
    gated_norm: bool = False


@dataclass(frozen=True)
class NormStep:
    """``p * norm(h)``, or without gate."""

    norm: nn.Module
    stream: str
    gated: bool = True


Step: TypeAlias = AttentionStep | FeedForwardStep | NormStep


@dataclass(frozen=True)
class Specimen:
    """One way in which one kind of module runs."""

    name: str
    width: int
    """E."""
    steps: tuple[Step, ...]
    """What happens to the receivers' carriers, in order."""
    run: Callable[[Tensor, Tensor], Tensor]
    """New carriers (B, S, E) of receivers (B, S, E) and sources (B, J, E)."""
    tau: Mapping[str, float]
    """By stream."""
    eps_den: float = 0.0
    own_sources: bool = True
    """Whether the sources are the receivers themselves, at every step."""
