"""What removal is worth: how far its two scopes are apart, and whether what they give holds."""

from __future__ import annotations
