"""How a stock host becomes a patched one: plan, calibrate, patch, and load it back."""

from __future__ import annotations
