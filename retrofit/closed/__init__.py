"""What a closed host is used for: estimators and passes with NULL rows and columns."""

from __future__ import annotations
