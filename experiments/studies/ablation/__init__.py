"""The two-block ablation: what each O-component is for."""

from __future__ import annotations
