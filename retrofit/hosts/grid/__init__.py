"""What the generations v2, v2.5 and v2.6 share: a grid of cells, and post-norm blocks over it."""

from __future__ import annotations
