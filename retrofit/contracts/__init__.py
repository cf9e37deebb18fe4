"""The laws of the operators, as functions that return measured figures.

Each law builds its inputs from a seed, measures, and returns ``Figure``s: the deviation it saw
beside the bound it must keep. ``oretro check`` prints them; the tests read them.

Source of the laws: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and
O-Closure for Token Dynamics", arXiv 2608.21174, 2026; the bounds are ours unless they say so.
"""

from __future__ import annotations

from retrofit.contracts.attention_laws import ATTENTION_LAWS, masked_insertion_in_torch
from retrofit.contracts.closure_laws import CLOSURE_LAWS
from retrofit.contracts.figures import Figure, Setting
from retrofit.contracts.presence_laws import PRESENCE_LAWS

CONTROLS = {"masked_insertion_in_torch": masked_insertion_in_torch}

__all__ = ["ATTENTION_LAWS", "CLOSURE_LAWS", "CONTROLS", "PRESENCE_LAWS", "Figure", "Setting"]
