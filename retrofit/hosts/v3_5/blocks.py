"""O-twins of the TabPFN v3.5 blocks, compiled where stock compiles them.

Shapes: B batch, M test rows, W width of a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabpfn.architectures.shared.compile_utils import compile_when_enabled
from tabpfn.architectures.tabpfn_v3_5 import (
    ColumnAggregator,
    CrossAttentionBlock,
    ICLTransformerBlock,
    InducedSelfAttentionBlock,
    SoftmaxScalingMLP,
    TransformerBlock,
    _DtypeMatchingRMSNorm,
    _PreHeadMLP,
)

from retrofit.hosts.prenorm.blocks import CrossTwin, ICLTwin, NormTwin, RowTwin
from retrofit.hosts.prenorm.closed_blocks import AggregatorTwin, InducedTwin, ScalingTwin

if TYPE_CHECKING:
    from torch import Tensor

    from retrofit.hosts.gates import Gates


class OCrossAttentionBlock(CrossTwin, CrossAttentionBlock):
    """O-twin of v3.5's ``CrossAttentionBlock``."""

    forward = compile_when_enabled(CrossTwin.forward)


class OTransformerBlock(RowTwin, TransformerBlock):
    """O-twin of v3.5's ``TransformerBlock``."""

    forward_cross = compile_when_enabled(RowTwin.forward_cross)
    _attend = compile_when_enabled(RowTwin._attend)
    _feed_forward = compile_when_enabled(RowTwin._feed_forward)


class OICLTransformerBlock(ICLTwin, ICLTransformerBlock):
    """O-twin of v3.5's ``ICLTransformerBlock``."""


class OPreHeadMLP(_PreHeadMLP):
    """O-twin of ``_PreHeadMLP``, the feed-forward before a head; stream ``ffn``."""

    gates: Gates
    streams = ("ffn",)

    def forward(self, x: Tensor) -> Tensor:
        """Carriers (B, M, W) after the feed-forward."""
        return self.gates.add_feed_forward(self.mlp, self.norm, "norm", x)


class ORMSNorm(NormTwin, _DtypeMatchingRMSNorm):
    """O-twin of v3.5's norms outside blocks."""


class OSoftmaxScaling(ScalingTwin, SoftmaxScalingMLP):
    """Twin of v3.5's ``SoftmaxScalingMLP`` in a closed host."""


class OInducedBlock(InducedTwin, InducedSelfAttentionBlock):
    """Twin of v3.5's ``InducedSelfAttentionBlock`` in a closed host."""


class OColumnAggregator(AggregatorTwin, ColumnAggregator):
    """Twin of v3.5's ``ColumnAggregator`` in a closed host."""
