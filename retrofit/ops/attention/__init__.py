"""OAttention: its formula, its kernels, and the choice between them."""

from __future__ import annotations
