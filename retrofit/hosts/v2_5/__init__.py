"""The TabPFN v2.5 generation."""

from __future__ import annotations
