"""Two small tables under names that a sweep can use, in place of the packaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeModel, subjects, toy_frame, toy_source

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


@pytest.fixture
def toy_yaml(toy_tables: object, tmp_path: Path) -> str:
    path = tmp_path / "toy.yaml"
    path.write_text("suite: toy\nhost: mini\ndatasets: [left, right]\nseeds: [1]\n")
    return str(path)


@pytest.fixture
def fake_load(monkeypatch: pytest.MonkeyPatch):
    """Let ``oretro eval`` run on hosts without a network."""

    def use(**models: FakeModel) -> None:
        from experiments.sweep import run as sweep

        ready = subjects(**models)
        monkeypatch.setattr(
            sweep.run_sweep,
            "__kwdefaults__",
            {**sweep.run_sweep.__kwdefaults__, "load": lambda config: ready},
        )

    return use
