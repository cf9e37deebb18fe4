"""Data sets as normalised tables, whatever they come from."""

from __future__ import annotations

from experiments.data.files import load_file
from experiments.data.registry import available, load_table, resolve
from experiments.data.table import Table, make_table

__all__ = ["Table", "available", "load_file", "load_table", "make_table", "resolve"]
