"""Writes a results folder's tables: changes, summary, baselines, presence sweep.

Imports neither torch nor tabpfn, so that a table can be made anywhere.
"""

from __future__ import annotations

import math
from dataclasses import asdict, astuple, fields
from typing import TYPE_CHECKING, Any

from experiments.io.atomic import write_atomic
from experiments.io.csv_text import csv_text
from experiments.report import markdown
from experiments.report.presence_sweep import PresencePoint, presence_points
from experiments.report.stats import PAIR_COLUMNS
from experiments.report.summary import Summary, summarise_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_SHARED_FIELDS = ("variant", "cases")
DELTA_COLUMNS = tuple(name for name in PAIR_COLUMNS if name != "predict_ratio")
"""Figures that a second run repeats to the last bit: no times."""


def write_tables(folder: Path, *, margin_pct: float) -> Summary:
    """Write every table of a folder from ``cases.csv``, ``noise.csv`` and ``run.json``.

    Raises:
        ResultsError: ``cases.csv`` is missing or cannot be trusted.
    """
    summary = summarise_folder(folder, margin_pct=margin_pct)
    rows = summary.pairs[list(DELTA_COLUMNS)].itertuples(index=False)
    _write_csv(folder / "deltas.csv", DELTA_COLUMNS, rows)
    records = [_summary_record(summary, variant.variant) for variant in summary.variants]
    header = list(records[0]) if records else ["variant"]
    _write_csv(folder / "summary.csv", header, (record.values() for record in records))
    write_atomic(folder / "summary.md", markdown.summary_page(summary))
    points = presence_points(summary)
    if points:
        header = [field.name for field in fields(PresencePoint)]
        _write_csv(folder / "presence_sweep.csv", header, (astuple(point) for point in points))
    if summary.baselines:
        _write_csv(
            folder / "baselines.csv", ("baseline", "dataset", "rmse_ratio"), _ratios(summary)
        )
        write_atomic(folder / "baselines.md", markdown.baseline_page(summary))
    return summary


def _summary_record(summary: Summary, name: str) -> dict[str, Any]:
    """One row of ``summary.csv``: the statistics, the noise floor, and the null radius."""
    (variant,) = (item for item in summary.variants if item.variant == name)
    (scores,) = (item for item in summary.scores if item.variant == name)
    radius = summary.null_radius.get(name)
    return {
        **asdict(variant),
        **{key: value for key, value in asdict(scores).items() if key not in _SHARED_FIELDS},
        "noise_mean_abs_pct": max(
            (floor.mean_abs_pct for floor in summary.noise), default=math.nan
        ),
        "noise_largest_pct": max((floor.largest_pct for floor in summary.noise), default=math.nan),
        "null_radius_median": radius.median if radius else math.nan,
        "null_radius_max": radius.max if radius else math.nan,
    }


def _ratios(summary: Summary) -> Iterable[Sequence[Any]]:
    for ratio in summary.baselines:
        for dataset, value in ratio.by_dataset.items():
            yield ratio.baseline, dataset, value
        yield ratio.baseline, "geometric mean", ratio.overall


def _write_csv(path: Path, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    cells = [[_cell(value) for value in row] for row in rows]
    write_atomic(path, csv_text((header, *cells)))


def _cell(value: Any) -> str:
    """Floats in their shortest exact form, NaN as an empty cell."""
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(float(value))
    return str(value)
