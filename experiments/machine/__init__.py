"""The machine and the code that numbers come from."""

from __future__ import annotations
