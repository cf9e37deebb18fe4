"""Reading and writing files of results: atomic, strict, and never through a link."""

from __future__ import annotations
