"""The TabPFN v2.6 generation."""

from __future__ import annotations
