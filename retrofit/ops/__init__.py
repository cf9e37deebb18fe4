"""O-closed operators: maths only, in torch only, for any model.

``presence`` says how much of a token is there. ``oattention`` is the function, ``OAttention`` the
module with projections. The others keep what ordinary layers break: a NULL token stays NULL and
moves nothing. Each formula stands in the file named after it.
"""

from __future__ import annotations

from retrofit.ops.attention.dispatch import (
    BACKENDS,
    AttentionRequest,
    Backend,
    KernelChoice,
    choose_kernel,
)
from retrofit.ops.attention.functional import oattention
from retrofit.ops.attention.layer import OAttention, OAttentionConfig
from retrofit.ops.attention.recorder import record_kernels
from retrofit.ops.errors import KernelUnavailableError, OperatorError, ShapeError
from retrofit.ops.ffn import OFFN, offn
from retrofit.ops.gate import add_gated, gate
from retrofit.ops.inject import OInject, oinject
from retrofit.ops.norm import ONorm, onorm
from retrofit.ops.presence import Tau, presence
from retrofit.ops.standardize import OStandardize
from retrofit.ops.transformer import OTransformer, OTransformerBlock, OTransformerConfig
from retrofit.words import EpsMode

__all__ = [
    "BACKENDS",
    "OFFN",
    "AttentionRequest",
    "Backend",
    "EpsMode",
    "KernelChoice",
    "KernelUnavailableError",
    "OAttention",
    "OAttentionConfig",
    "OInject",
    "ONorm",
    "OStandardize",
    "OTransformer",
    "OTransformerBlock",
    "OTransformerConfig",
    "OperatorError",
    "ShapeError",
    "Tau",
    "add_gated",
    "choose_kernel",
    "gate",
    "oattention",
    "offn",
    "oinject",
    "onorm",
    "presence",
    "record_kernels",
]
