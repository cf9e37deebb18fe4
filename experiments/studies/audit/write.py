"""The audit's files: tables as CSV, the page, the heat map, and what they were made with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.machine import provenance
from experiments.studies.audit.heatmap import picture
from experiments.studies.audit.page import page
from experiments.studies.writer import write_study

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd


def write(
    folder: Path,
    host: str,
    sha256: str,
    tables: dict[str, pd.DataFrame],
    about: dict[str, Any],
    *,
    command: Sequence[str],
    figures: bool,
) -> list[Path]:
    """Write everything and return the paths.

    Raises:
        MissingExtraError: a figure is wanted and matplotlib is not installed.
        ResultsError: a file cannot be written.
    """
    pictures = [picture(tables["stages"], host)] if figures else []
    figure = f"{pictures[0].name}.svg" if pictures else None
    record = provenance.record(
        command,
        host={"name": host, "sha256": sha256, "built_in": about["built_in"]},
        tolerance=about["tolerance"],
    )
    found = {name: frame for name, frame in tables.items() if not frame.empty}
    text = page(host, tables, **about, figure=figure)
    return write_study(folder, "audit", found, text, record, pictures=pictures, digits=4)
