"""What an O-twin of a block knows besides the weights, and the gating that all twins share.

Shapes: B batch, S receivers, J sources, H heads, D head width, E model width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from retrofit.hosts.declare import may_hold_nulls
from retrofit.hosts.probe import active_probe
from retrofit.hosts.rotary import Rotary, rotate_by_rank
from retrofit.ops import add_gated, gate, oattention, onorm, presence
from retrofit.ops.one_pass import one_squared_norm, presence_by, rms_norm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retrofit.config import RetrofitConfig
    from retrofit.words import EpsMode


def heads(projection: nn.Module, x_BSE: Tensor, head_dim: int) -> Tensor:
    """Project and split: (B, S, E) -> (B, S, H, D)."""
    B, S, _ = x_BSE.shape
    projected: Tensor = projection(x_BSE)
    return projected.view(B, S, -1, head_dim)


@dataclass(frozen=True)
class Gates:
    """Settings of one patched module: plain numbers, so that casting a model cannot round them."""

    name: str
    """Qualified name of the module inside its host."""
    full: bool
    """Whether feed-forward and norms are gated too."""
    tau: Mapping[str, float] | None
    """tau by stream of this module; None forces every presence to 1."""
    eps_den: float
    eps_mode: EpsMode
    closed: bool = False
    """Whether the number of sources and their positions count the present tokens only."""

    @classmethod
    def of(cls, config: RetrofitConfig, name: str, streams: tuple[str, ...]) -> Gates:
        """The part of ``config`` that concerns the module ``name``.

        Raises:
            KeyError: ``config.tau`` lacks one of the module's streams.
        """
        tau = None
        if config.presence != "one":
            tau = {stream: config.tau[f"{name}:{stream}"] for stream in streams}
        return cls(
            name=name,
            full=config.variant != "oa",
            tau=tau,
            eps_den=config.eps_den,
            eps_mode=config.eps_mode,
            closed=config.variant == "closed",
        )

    def carrier(
        self, stream: str, norm: nn.Module, attribute: str, h: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Presence (...) of carriers ``h`` (..., E), and the carriers after the (gated) norm.

        From one reduction where there is a way.
        """
        n = one_squared_norm(h)
        p = self.presence(stream, h, n)
        return p, self.norm(norm, attribute, h, p, n)

    def presence(self, stream: str, h: Tensor, n: Tensor | None = None) -> Tensor:
        """Presence (...) of carriers ``h`` (..., E), in float32 or wider.

        ``n`` (...) are their squared norms, where known.
        """
        probe = active_probe()
        if probe is not None:
            probe.carrier(f"{self.name}:{stream}", h)
        if self.tau is None:
            return torch.ones(
                h.shape[:-1], dtype=torch.promote_types(h.dtype, torch.float32), device=h.device
            )
        tau, n = self.tau[stream], one_squared_norm(h) if n is None else n
        return presence(h, tau) if n is None else presence_by(n, tau, h.dtype)

    def norm(
        self, norm: nn.Module, attribute: str, h: Tensor, p: Tensor | None, n: Tensor | None = None
    ) -> Tensor:
        """``p * norm(h)`` for `full`, ``norm(h)`` otherwise; ``n`` as for ``presence``."""
        if self.full:
            self._visit(attribute)
        else:
            p = None
        # A norm that is itself a twin comes as its stock forward, a bound method.
        owner = getattr(norm, "__self__", norm)
        if n is not None and isinstance(owner, nn.RMSNorm) and len(owner.normalized_shape) == 1:
            return rms_norm(owner, h, n, p)
        if p is not None:
            return onorm(norm, h, p)
        out: Tensor = norm(h)
        return out

    def post_norm(self, norm: nn.Module, attribute: str, h: Tensor) -> Tensor:
        """As ``norm``, with the presence that ``h`` has in the stream named after the norm."""
        if not self.full:
            return self.norm(norm, attribute, h, None)
        return self.carrier(attribute, norm, attribute, h)[1]

    def feed_forward(
        self, mlp: nn.Module, norm: nn.Module | None, attribute: str, h: Tensor
    ) -> Tensor:
        """The update that OFFN adds to ``h`` (..., E), its norm an ONorm; stock's for `oa`."""
        update, p = self.feed_forward_parts(mlp, norm, attribute, h)
        return update if p is None else gate(update, p)

    def add_feed_forward(
        self, mlp: nn.Module, norm: nn.Module, attribute: str, h: Tensor, *, owned: bool = False
    ) -> Tensor:
        """``h + feed_forward(...)`` in one product; overwrites ``h`` where that is ``owned``."""
        update, p = self.feed_forward_parts(mlp, norm, attribute, h)
        return add_gated(h, update, p, owned=owned)

    def feed_forward_parts(
        self, mlp: nn.Module, norm: nn.Module | None, attribute: str, h: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The update before its gate, and the presence that gates it; none for `oa`."""
        n = one_squared_norm(h) if self.full or norm is not None else None
        p = None
        if self.full:
            p = self.presence("ffn", h, n)
            self._visit("mlp")
        update: Tensor = mlp(h if norm is None else self.norm(norm, attribute, h, p, n))
        return update, p

    @staticmethod
    def add(x: Tensor, update: Tensor, *, owned: bool = False) -> Tensor:
        """``x + update`` for an update that is gated already.

        Overwrites ``x`` where that is ``owned``: read by nobody else any more.
        """
        return add_gated(x, update, None, owned=owned)

    def inject(self, attribute: str, injected: Tensor, p: Tensor) -> Tensor:
        """What an injection adds to tokens, (..., E), in proportion to their presence (...)."""
        self._visit(attribute)
        return gate(injected, p)

    def support(self, attribute: str, present: Tensor) -> Tensor:
        """Which tokens a statistic reads: those that are there."""
        self._visit(attribute)
        return present

    def source_count(self, p_BJ: Tensor) -> int | Tensor:
        """How many sources a receiver's scores are scaled for: J, or the present ones, (B,)."""
        if self.closed and may_hold_nulls():
            return (p_BJ > 0).sum(-1)
        return p_BJ.shape[1]

    def rotate(self, rope: Rotary | None, t_BSHD: Tensor, p_BS: Tensor) -> Tensor:
        """Rotary positions of tokens, by rank among the present ones; none without ``rope``."""
        if rope is None:
            return t_BSHD
        if self.closed and may_hold_nulls():
            return rotate_by_rank(rope, t_BSHD, p_BS > 0)
        rotated: Tensor = rope.rotate_queries_or_keys(t_BSHD.transpose(1, 2))
        return rotated.transpose(1, 2)

    def attend(
        self,
        attribute: str,
        q_BSHD: Tensor,
        k_BJHD: Tensor,
        v_BJHD: Tensor,
        p_BJ: Tensor,
        p_BS: Tensor | None,
    ) -> Tensor:
        """OAttention (B, S, H * D) with its receiver gate, before the output projection.

        No host's output projection has a bias, so the gate need not follow it and costs nothing;
        None for no gate.
        """
        q_BHSD, k_BHJD, v_BHJD = (t.transpose(1, 2) for t in (q_BSHD, k_BJHD, v_BJHD))
        probe = active_probe()
        if probe is not None:
            site = f"{self.name}.{attribute}"
            probe.visit(site)
            probe.attention(site, q_BHSD, k_BHJD, p_BJ)
        out_BHSD = oattention(
            q_BHSD, k_BHJD, v_BHJD, p_BS, p_BJ, eps_den=self.eps_den, eps_mode=self.eps_mode
        )
        return out_BHSD.transpose(1, 2).flatten(2)

    def _visit(self, attribute: str) -> None:
        probe = active_probe()
        if probe is not None:
            probe.visit(".".join(part for part in (self.name, attribute) if part))
