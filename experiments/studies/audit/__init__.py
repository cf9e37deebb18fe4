"""The audit of a host: where a NULL row or column acts, how much, and which gate stops it."""

from __future__ import annotations
