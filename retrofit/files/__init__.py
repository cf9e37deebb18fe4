"""Files: whole or not at all, with digests, and what a checkpoint says of itself."""

from __future__ import annotations
