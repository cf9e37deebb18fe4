"""Writes a results folder's tables: changes, summary, baselines, presence sweep.

Imports neither torch nor tabpfn, so that a table can be made anywhere.
"""

from __future__ import annotations

import math
from dataclasses import asdict, astuple, fields
from typing import TYPE_CHECKING, Any

from experiments.io.csv_text import csv_text
from experiments.report import markdown
from experiments.report.presence_sweep import PresencePoint, presence_points
from experiments.report.stats import PAIR_COLUMNS
from experiments.report.summary import summarise_folder
from retrofit.files.atomic import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from experiments.report.summary import Summary

DELTA_COLUMNS = tuple(name for name in PAIR_COLUMNS if name != "predict_ratio")
"""Figures that a second run repeats to the last bit: no times."""


def write_tables(folder: Path, *, margin_pct: float) -> Summary:
    """Write every table of a folder from ``cases.csv``, ``noise.csv`` and ``run.json``.

    Raises:
        ResultsError: ``cases.csv`` is missing or cannot be trusted.
    """
    summary = summarise_folder(folder, margin_pct=margin_pct)
    pairs = summary.pairs[list(DELTA_COLUMNS)].itertuples(index=False)
    records = list(_records(summary))
    texts = {
        "deltas.csv": csv_text((DELTA_COLUMNS, *pairs)),
        "summary.csv": csv_text(
            (records[0] if records else ["variant"], *map(dict.values, records))
        ),
        "summary.md": markdown.summary_page(summary),
    }
    if points := presence_points(summary):
        header = [field.name for field in fields(PresencePoint)]
        texts["presence_sweep.csv"] = csv_text((header, *map(astuple, points)))
    if summary.baselines:
        texts["baselines.csv"] = csv_text(_ratios(summary))
        texts["baselines.md"] = markdown.baseline_page(summary)
    for name, text in texts.items():
        write_atomic(folder / name, text)
    return summary


def _records(summary: Summary) -> Iterator[dict[str, Any]]:
    """Rows of ``summary.csv``: the statistics, the scores, the noise floor, and the null radius."""
    noise = {
        f"noise_{name}": max((getattr(floor, name) for floor in summary.noise), default=math.nan)
        for name in ("mean_abs_pct", "largest_pct")
    }
    for variant, scores in zip(summary.variants, summary.scores, strict=True):
        radius = summary.radius(variant.variant)
        radii = {"null_radius_median": radius.median, "null_radius_max": radius.max}
        yield {**asdict(variant), **scores.figures, **noise, **radii}


def _ratios(summary: Summary) -> Iterator[tuple[Any, ...]]:
    yield "baseline", "dataset", "rmse_ratio"
    for ratio in summary.baselines:
        for dataset, value in ratio.by_dataset.items():
            yield ratio.baseline, dataset, value
        yield ratio.baseline, "geometric mean", ratio.overall
