"""O-twins of the TabPFN v3 blocks."""

from __future__ import annotations

from tabpfn.architectures.tabpfn_v3 import (
    ColumnAggregator,
    CrossAttentionBlock,
    ICLTransformerBlock,
    InducedSelfAttentionBlock,
    SoftmaxScalingMLP,
    TransformerBlock,
    _DtypeMatchingRMSNorm,
)

from retrofit.hosts.prenorm.blocks import CrossTwin, ICLTwin, NormTwin, RowTwin
from retrofit.hosts.prenorm.closed_blocks import AggregatorTwin, InducedTwin, ScalingTwin


class OCrossAttentionBlock(CrossTwin, CrossAttentionBlock):
    """O-twin of v3's ``CrossAttentionBlock``."""


class OTransformerBlock(RowTwin, TransformerBlock):
    """O-twin of v3's ``TransformerBlock``."""


class OICLTransformerBlock(ICLTwin, ICLTransformerBlock):
    """O-twin of v3's ``ICLTransformerBlock``."""


class ORMSNorm(NormTwin, _DtypeMatchingRMSNorm):
    """O-twin of v3's norms outside blocks."""


class OSoftmaxScaling(ScalingTwin, SoftmaxScalingMLP):
    """Twin of v3's ``SoftmaxScalingMLP`` in a closed host."""


class OInducedBlock(InducedTwin, InducedSelfAttentionBlock):
    """Twin of v3's ``InducedSelfAttentionBlock`` in a closed host."""


class OColumnAggregator(AggregatorTwin, ColumnAggregator):
    """Twin of v3's ``ColumnAggregator`` in a closed host."""
