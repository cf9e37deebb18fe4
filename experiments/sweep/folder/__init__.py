"""The folder of a sweep: finished rows, keys to resume by, and its lock."""

from __future__ import annotations
