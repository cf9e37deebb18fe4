"""Removal put to use: attributions of columns, values of rows, intervals; none by a refit loop."""

from __future__ import annotations
