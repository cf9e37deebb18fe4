"""The two-block ablation: what an inserted zero token does to three hosts, and which gate matters.

A host is a small transformer with drawn weights. All hosts of a setting share one set of weights;
they differ in which O-components they have and which ordinary counterparts they have instead. A
zero token is inserted at a seeded place, and after every block two figures are taken: how far the
old tokens' states moved (L-inf), and how large the inserted token has become.

Source: H. Gong, "From Attention Masks to Inert Zero-Vector Tokens: OAttention and O-Closure for
Token Dynamics", arXiv 2608.21174, 2026 (two-block ablation). Sizes and weights are ours.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable

SETTING = ("layers", "norm_placement", "width", "depth", "dtype", "host")
COLUMNS = (*SETTING, "seed", "block", "old_shift", "null_size", "state_size")


@dataclass(frozen=True)
class AblatedHost:
    """Which O-components a host has; what it lacks is there as its ordinary counterpart."""

    name: str
    sources: bool = True
    """Sources enter attention with their presence."""
    receivers: bool = True
    """Attention's update is gated by the receiver's presence."""
    ffn: bool = True
    """OFFN."""
    norm: bool = True
    """ONorm."""


STUDY = (
    AblatedHost("standard", sources=False, receivers=False, ffn=False, norm=False),
    AblatedHost("OA-only", ffn=False, norm=False),
    AblatedHost("OTransformer"),
)
LEAVE_ONE_OUT = (
    AblatedHost("without p_j on sources", sources=False),
    AblatedHost("without p_i on receivers", receivers=False),
    AblatedHost("without OFFN", ffn=False),
    AblatedHost("without ONorm", norm=False),
)
HOSTS = (*STUDY, *LEAVE_ONE_OUT)

LAYERS = ("biased", "bias-free")
"""LayerNorm, projections and feed-forward with biases; or RMSNorm and no bias, as newer TabPFNs."""
PLACEMENTS = ("pre", "post")


@dataclass(frozen=True)
class AblationConfig:
    """The grid of the study."""

    seeds: int = 20
    widths: tuple[int, ...] = (64, 256)
    depths: tuple[int, ...] = (2, 8)
    dtypes: tuple[str, ...] = ("float64", "float32")
    layers: tuple[str, ...] = LAYERS
    placements: tuple[str, ...] = PLACEMENTS
    threads: int = 1
    """Of torch, while a host runs."""
    tokens: int = 8
    heads: int = 4
    tau: float = 1e-6


@dataclass(frozen=True)
class SharedWeights:
    """One set of weights."""

    layers: str
    norm_placement: str
    width: int
    depth: int
    seed: int


def run_ablation(
    config: AblationConfig, report: Callable[[str], None] = lambda _: None
) -> pd.DataFrame:
    """Run the whole grid and return ``COLUMNS``: one row per host, dtype, seed and block.

    On ``config.threads``, whatever the caller's setting: several share the rows of a matrix product
    out by their number, and one row more then moves last bits of the others.
    """
    from experiments.machine.threads import pinned_threads
    from experiments.studies.ablation.hosts import measure

    rows: list[dict[str, Any]] = []
    grid = itertools.product(config.layers, config.placements, config.widths, config.depths)
    for layers, placement, width, depth in grid:
        report(f"{layers}, {placement}-norm, width {width}, depth {depth}")
        with pinned_threads(config.threads):
            for seed in range(config.seeds):
                rows += measure(SharedWeights(layers, placement, width, depth, seed), HOSTS, config)
    figures: pd.DataFrame = pd.DataFrame(rows, columns=list(COLUMNS))
    return figures


def summarise(figures: pd.DataFrame) -> pd.DataFrame:
    """Return one row per setting, host and block, over the seeds.

    ``old_shift_median`` and ``old_shift_max``; ``old_shift_ulps_max``, in units in the last place
    of the largest state; ``null_size_max``, the largest component of a zero token.
    """
    keys = [*SETTING, "block"]
    eps = figures["dtype"].map({"float64": 2.0**-52, "float32": 2.0**-23})
    ulps = figures["old_shift"] / (figures["state_size"] * eps)
    groups = figures.assign(ulps=ulps).groupby(keys, sort=False)
    summary: pd.DataFrame = groups.agg(
        seeds=("seed", "nunique"),
        old_shift_median=("old_shift", "median"),
        old_shift_max=("old_shift", "max"),
        old_shift_ulps_max=("ulps", "max"),
        null_size_max=("null_size", "max"),
    ).reset_index()
    return summary


def after_last_block(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that stand after the last block."""
    last: pd.DataFrame = frame[frame["block"] == frame["depth"]]
    return last
