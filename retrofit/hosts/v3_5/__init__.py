"""The TabPFN v3.5 generation: its site map and the O-twins of its blocks."""

from __future__ import annotations
