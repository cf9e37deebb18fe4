"""What tests of sweeps share: a run on fakes, and its tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from fakes import subjects, toy_source

from experiments.data import registry
from experiments.sweep.config import SweepConfig
from experiments.sweep.folder.results import read_cases
from experiments.sweep.run import run_sweep
from experiments.sweep.schema import TIMING_COLUMNS


def sweep(config: SweepConfig, folder: Path, what=None, **options):
    ready = what or subjects()
    return run_sweep(config, folder, load=lambda _: ready, **options)


def untimed(folder: Path) -> str:
    return read_cases(folder / "cases.csv").drop(columns=list(TIMING_COLUMNS)).to_csv()


def rows(folder: Path, name: str = "cases.csv") -> dict[tuple[str, int, str], pd.Series]:
    table = read_cases(folder / name)
    return {(row.dataset, row.seed, row.variant): row for _, row in table.iterrows()}


def one_table(monkeypatch: pytest.MonkeyPatch, frame: pd.DataFrame, **settings) -> SweepConfig:
    monkeypatch.setattr(registry, "SOURCES", {"toy": toy_source(only=frame)})
    return SweepConfig(suite="toy", host="fake", datasets=("only",), seeds=(1,), **settings)
