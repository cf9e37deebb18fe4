"""What a patched host costs beside stock."""

from __future__ import annotations
