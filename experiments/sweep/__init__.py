"""A sweep: its configuration, its cases, and how one case runs."""

from __future__ import annotations
