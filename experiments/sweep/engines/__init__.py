"""How the cases of a sweep are shared out: here, in processes, over a cluster."""

from __future__ import annotations
