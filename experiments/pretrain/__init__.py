"""Pretraining of the built-in mini host. It is not Prior Labs' model and stands in for none."""

from __future__ import annotations
