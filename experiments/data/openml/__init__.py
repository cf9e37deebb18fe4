"""Data sets of OpenML, through its own client and an offline cache."""

from __future__ import annotations
