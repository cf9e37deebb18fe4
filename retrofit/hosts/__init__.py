"""Host adapters, one per TabPFN generation: the site map and the O-twins of its blocks."""

from __future__ import annotations
