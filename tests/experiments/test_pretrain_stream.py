"""Configuration, task stream and clock of a pretraining run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from experiments.errors import ConfigError
from experiments.pretrain.clock import Clock
from experiments.pretrain.config import (
    DataConfig,
    ReplayBudget,
    StepBudget,
    ValidationConfig,
    WallClockBudget,
    load_config,
)
from experiments.pretrain.stream import draw_shape, training_batch, validation_batches
from experiments.prior import PriorConfig

CONFIGS = Path(__file__).parents[2] / "configs"
DATA = DataConfig.model_validate(
    {
        "cells": 2_000,
        "curriculum": [
            {"until": 0.5, "rows": [20, 30], "columns": [2, 3]},
            {"until": 1.0, "rows": [40, 90], "columns": [4, 9]},
        ],
    }
)
GOOD = """
name: tiny
architecture: tabpfn_v3
model: {num_buckets: 20}
budget: {kind: steps, steps: 3}
data: {curriculum: [{until: 1.0, rows: [10, 20], columns: [1, 2]}]}
"""


def batch(*, seed: int = 1, step: int = 5, rank: int = 0, progress: float = 0.2):
    return training_batch(DATA, PriorConfig(), seed=seed, step=step, rank=rank, progress=progress)


def test_batches_depend_on_seed_step_and_rank_and_on_nothing_else():
    first, again = batch(), batch()
    assert torch.equal(first.y_RB, again.y_RB)
    assert torch.equal(first.x_RBC.nan_to_num(7.0), again.x_RBC.nan_to_num(7.0))
    assert first.train_rows == again.train_rows
    neighbour = batch(rank=1)
    assert neighbour.x_RBC.shape == first.x_RBC.shape
    assert neighbour.train_rows == first.train_rows
    assert not torch.equal(neighbour.y_RB, first.y_RB)
    for other in (batch(seed=2), batch(step=6)):
        assert other.y_RB.shape != first.y_RB.shape or not torch.equal(other.y_RB, first.y_RB)


def test_curriculum_sets_the_sizes():
    for progress, rows, columns in ((0.0, (20, 30), (2, 3)), (0.9, (40, 90), (4, 9))):
        shapes = [draw_shape(DATA, 0, step, progress) for step in range(200)]
        seen_rows = {shape.rows for shape, _ in shapes}
        seen_columns = {shape.columns for shape, _ in shapes}
        assert min(seen_rows) >= rows[0]
        assert max(seen_rows) <= rows[1]
        assert (min(seen_columns), max(seen_columns)) == columns
        assert len(seen_rows) > 5
        shares = [shape.train_rows / shape.rows for shape, _ in shapes]
        assert 0.45 < min(shares) < 0.6
        assert 0.8 < max(shares) < 0.95


def test_large_tasks_come_in_small_batches():
    counts = {}
    for step in range(200):
        shape, count = draw_shape(DATA, 0, step, 0.9)
        counts[shape.rows * (shape.columns + 6)] = count
        assert 1 <= count <= DATA.max_tasks
    assert counts[max(counts)] < counts[min(counts)]


def test_processes_share_the_validation_tasks_out():
    validation = ValidationConfig(seed=3, shapes=((20, 2), (24, 3)), tasks=5)
    prior = PriorConfig()
    whole = validation_batches(validation, prior)
    shares = [validation_batches(validation, prior, rank=r, processes=2) for r in range(2)]
    for index, everything in enumerate(whole):
        joined = torch.empty_like(everything.y_RB)
        joined[:, 0::2] = shares[0][index].y_RB
        joined[:, 1::2] = shares[1][index].y_RB
        assert torch.equal(joined, everything.y_RB)
    other = validation_batches(validation.model_copy(update={"seed": 4}), prior)
    assert not torch.equal(other[0].y_RB, whole[0].y_RB)


def test_more_processes_than_validation_tasks_leave_some_idle():
    validation = ValidationConfig(shapes=((20, 2),), tasks=1)
    assert validation_batches(validation, PriorConfig(), rank=1, processes=2) == []


def test_step_clock_ignores_time():
    clock = Clock(StepBudget(kind="steps", steps=8), tick_steps=3)
    assert [clock.progress(step, 1e9) for step in (0, 2, 4, 8)] == [0.0, 0.25, 0.5, 1.0]
    assert clock.seconds_left(0.25, 10.0) == pytest.approx(30.0)


def test_wall_clock_is_held_between_ticks():
    clock = Clock(WallClockBudget(kind="wall_clock", seconds=100.0), tick_steps=10)
    assert clock.progress(0, 1.0) == 0.01
    assert clock.progress(9, 50.0) == 0.01
    assert clock.progress(10, 50.0) == 0.5
    assert clock.progress(20, 300.0) == 1.0
    assert clock.seconds_left(0.5, 50.0) == pytest.approx(50.0)


def test_replay_repeats_a_recorded_pace(tmp_path: Path):
    pace = tmp_path / "pace.csv"
    pace.write_text("step,progress\n0,0.01\n4,0.6\n9,1.0\n", encoding="utf-8")
    clock = Clock(ReplayBudget(kind="replay", pace=pace), tick_steps=99)
    readings = [clock.progress(step, 1e9 * step) for step in range(10)]
    assert readings == [0.01] * 4 + [0.6] * 5 + [1.0]


@pytest.mark.parametrize(
    "text", ["step,progress\n0,0.0\n5,0.7\n", "step,progress\n3,1.0\n", "a,b\n1,2\n", ""]
)
def test_pace_of_no_finished_run_is_refused(tmp_path: Path, text: str):
    pace = tmp_path / "pace.csv"
    pace.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"budget\.pace"):
        Clock(ReplayBudget(kind="replay", pace=pace), tick_steps=1)


@pytest.mark.parametrize("name", ["mini_host.yaml", "mini_host_ci.yaml"])
def test_shipped_configurations_are_valid(name: str):
    assert load_config(CONFIGS / name).name.startswith("mini-host")


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        (GOOD + "sed: 3\n", "sed"),
        (GOOD.replace("steps: 3", "steps: 0"), "budget.steps"),
        (GOOD.replace("kind: steps", "kind: epochs"), "budget"),
        (GOOD.replace("until: 1.0", "until: 0.9"), "curriculum"),
        (GOOD.replace("[10, 20]", "[20, 10]"), "rows"),
        (GOOD + "prior: {families: {lineer: 1}}\n", "lineer"),
        ("- a list", "expected fields"),
        (GOOD + "seed: 1\nseed: 2\n", "'seed' stands twice"),
        (GOOD.replace("num_buckets: 20", "num_bucket: 20"), "model: .* no field num_bucket"),
        (GOOD.replace("tabpfn_v3", "tabpfn_v9"), "architecture: no architecture 'tabpfn_v9'"),
        ("a: [", "YAML"),
    ],
)
def test_faulty_configurations_are_refused_by_name(tmp_path: Path, text: str, culprit: str):
    path = tmp_path / "faulty.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=culprit) as caught:
        load_config(path)
    assert str(path) in str(caught.value)


def test_a_missing_configuration_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        load_config(tmp_path / "absent.yaml")
