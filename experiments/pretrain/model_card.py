"""The model card that goes with an exported host: what it is, what it is not, how it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.pretrain.config import StepBudget, WallClockBudget
from experiments.pretrain.export import LICENCE, average_weights
from experiments.pretrain.model import architecture_config
from retrofit.files.digest import file_sha256

if TYPE_CHECKING:
    from pathlib import Path

    from experiments.pretrain.checkpoint import Checkpoint
    from experiments.pretrain.config import PretrainConfig


def _budget(config: PretrainConfig) -> str:
    budget = config.budget
    if isinstance(budget, StepBudget):
        return f"{budget.steps} steps"
    if isinstance(budget, WallClockBudget):
        return f"{budget.seconds:.0f} s of wall time (the pace is recorded in `pace.csv`)"
    return f"the recorded pace of {budget.pace.name}"


def model_card(checkpoint: Checkpoint, exported: Path) -> str:
    """The card as Markdown; ``exported`` is the file that it describes."""
    config = checkpoint.read_config()
    weights = average_weights(checkpoint)
    parameters = sum(value.numel() for value in weights.values())
    shapes = config.validation.shapes
    rows = max(phase.rows[1] for phase in config.data.curriculum)
    columns = max(phase.columns[1] for phase in config.data.curriculum)
    families = ", ".join(sorted(name for name, w in config.prior.families.items() if w > 0))
    family = architecture_config(config).name
    size = ", ".join(f"`{name}` {value}" for name, value in config.model.items())
    figures = checkpoint.figures
    state = "finished" if checkpoint.finished else f"UNFINISHED, {100 * checkpoint.progress:.0f} %"
    validation = (
        f"mean negative log likelihood {figures['val_nll']:.4f} nats, "
        f"mean R2 {figures['val_r2_mean']:.4f}, median R2 {figures['val_r2_median']:.4f} "
        f"on {len(shapes) * config.validation.tasks} synthetic tasks (rows x columns "
        + ", ".join(f"{r} x {c}" for r, c in shapes)
        + ")"
        if "val_nll" in figures
        else "none yet"
    )
    return f"""# Model card: {config.name} (`{exported.name}`)

**This is not Prior Labs' model.** It is a small regressor of the {family} architecture,
trained from random weights by the oretro project on synthetic tasks alone. No weight of an official
checkpoint went into it. Its results say nothing about {family}'s.

| | |
|---|---|
| file | `{exported.name}`, {exported.stat().st_size:,} bytes |
| SHA-256 | `{file_sha256(exported)}` |
| architecture | `{config.architecture}` of the `tabpfn` package, {parameters:,} numbers |
| size | {size} |
| licence | {LICENCE} |
| made by | `oretro pretrain` ({state}) |

## What it is for

A subject for retrofits and their tests where the gated official checkpoints are not at hand: it
does real in-context regression, loads in stock `TabPFNRegressor(model_path=...)`, and has every
kind of site that the official model has. It is not meant for predictions that matter.

## Data

Synthetic regression tasks from a prior of our own (`experiments/prior`). Families of signals:
{families}. Columns are categorical,
heavy-tailed, discretised or irrelevant; noise levels vary; cells are missing. No real table was
used for training or for the choice of a checkpoint.

## Training

- Seed {config.seed}, {checkpoint.step:,} steps, {checkpoint.tasks:,} tasks, \
{checkpoint.elapsed_s:,.0f} s in {config.processes} processes of {config.threads} threads.
- Budget: {_budget(config)}.
- Loss: tabpfn's bar distribution on targets standardised by the train rows.
- Muon and AdamW, linear decay to zero; the exported weights are an exponential moving average.
- {checkpoint.skipped} steps skipped for a non-finite gradient.

## Figures

- Validation (synthetic, fixed seed): {validation}.
- Real tables: see `results/{config.name}/`.

## Limits

- Regression only; trained on at most {rows:,} rows and {columns} columns. Beyond that it
  extrapolates.
- Preprocessing at inference is tabpfn's v2.5 regressor setting, without the fingerprint column.
- Its intervals come from a coarse target grid and are calibrated on synthetic tasks alone.
"""
