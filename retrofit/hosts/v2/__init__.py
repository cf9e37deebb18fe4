"""The TabPFN v2 generation."""

from __future__ import annotations
