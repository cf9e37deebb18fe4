"""A change counts as a tie up to the largest that stock shows against itself, in any case."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import toy_row

from experiments.io.csv_text import csv_text
from experiments.report.summary import summarise_folder
from experiments.sweep import schema


@pytest.mark.parametrize(
    ("change", "told"), [(1.015, "ties"), (0.985, "ties"), (1.025, "losses"), (0.975, "wins")]
)
def test_ties_go_by_the_largest_noise_and_not_by_its_mean(
    tmp_path: Path, change: float, told: str
) -> None:
    """Noise of 0 % and 2 %: a change of 1.5 % lies between their mean and the larger."""
    cases, noise = [], []
    for dataset, rerun in (("left", 1.0), ("right", 1.02)):
        cases += [toy_row(dataset, 1, "stock"), toy_row(dataset, 1, "oa", rmse=change)]
        noise.append(toy_row(dataset, 1, "stock@repeat", rmse=rerun))
    for name, rows in (("cases.csv", cases), ("noise.csv", noise)):
        text = csv_text((schema.columns(), *map(schema.to_cells, rows)))
        (tmp_path / name).write_text(text)
    summary = summarise_folder(tmp_path, margin_pct=0.5)
    (floor,) = summary.noise
    assert (floor.mean_abs_pct, floor.largest_pct) == pytest.approx((1.0, 2.0))
    assert summary.noise_pct == floor.largest_pct
    (variant,) = summary.variants
    counts = {name: getattr(variant, name) for name in ("wins", "ties", "losses")}
    assert counts == {"wins": 0, "ties": 0, "losses": 0, told: 2}
