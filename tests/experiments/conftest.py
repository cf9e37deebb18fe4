"""Two small tables under names that a sweep can use, in place of the packaged ones."""

from __future__ import annotations

import pytest
from fakes import toy_frame, toy_source

from experiments.data import registry
from experiments.sweep.config import SweepConfig


@pytest.fixture
def toy_tables(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    frames = {"left": toy_frame(20, 1), "right": toy_frame(24, 2)}
    monkeypatch.setattr(registry, "SOURCES", {"toy": toy_source(**frames)})
    # Durability has tests of its own; thousands of real flushes only cost time here.
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    return frames


@pytest.fixture
def toy_config(toy_tables: object) -> SweepConfig:
    return SweepConfig(suite="toy", host="fake", datasets=("left", "right"), seeds=(1, 2))
