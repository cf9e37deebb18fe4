"""The laws of the operators, measured and written down."""

from __future__ import annotations
