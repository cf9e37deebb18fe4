"""Studies beside the sweep: laws, ablation, cost, audit."""

from __future__ import annotations
