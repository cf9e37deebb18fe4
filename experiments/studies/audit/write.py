"""The audit's files: tables as CSV, the page, the heat map, and what they were made with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from experiments.io.writable import write_files
from experiments.machine import provenance
from experiments.studies.audit.heatmap import picture
from experiments.studies.audit.page import page

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
    drawn = picture(tables["stages"], host) if figures else None
    texts = {
        f"{name}.csv": frame.to_csv(index=False, lineterminator="\n", float_format="%.4g")
        for name, frame in tables.items()
        if not frame.empty
    }
    figure = None
    if drawn is not None:
        figure = f"{drawn.name}.svg"
        texts[figure] = drawn.svg
    texts["audit.md"] = page(host, tables, **about, figure=figure)
    record = {
        "schema": 1,
        "command": list(command),
        "host": {"name": host, "sha256": sha256, "built_in": about["built_in"]},
        "tolerance": about["tolerance"],
        "code": provenance.git_state(),
        "versions": provenance.versions(),
        "machine": provenance.machine(),
        "finished": provenance.now(),
    }
    texts["audit.json"] = json.dumps(record, indent=1) + "\n"
    pixels = {} if drawn is None else {f"{drawn.name}.png": drawn.png}
    write_files(folder, {**texts, **pixels})
    return [folder / name for name in texts]
