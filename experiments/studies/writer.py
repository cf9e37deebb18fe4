"""How every study leaves its results: tables, a page, figures, and a record of what they are of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from experiments.io.writable import write_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from experiments.report.plot_style import Picture


def write_study(
    folder: Path,
    name: str,
    tables: Mapping[str, pd.DataFrame],
    page: str,
    record: Mapping[str, Any],
    *,
    pictures: Sequence[Picture] = (),
    digits: int | None = 6,
) -> list[Path]:
    """Write ``NAME.md``, ``NAME.json``, a CSV file per table and the figures; return their paths.

    ``digits`` are the significant ones of a table's floats; None: their shortest exact form.

    Raises:
        ResultsError: the folder cannot be written.
    """
    form = None if digits is None else f"%.{digits}g"
    contents: dict[str, str | bytes] = {
        f"{table}.csv": frame.to_csv(index=False, lineterminator="\n", float_format=form)
        for table, frame in tables.items()
    }
    contents[f"{name}.md"] = page
    contents[f"{name}.json"] = json.dumps(record, indent=1) + "\n"
    for picture in pictures:
        contents |= {f"{picture.name}.svg": picture.svg, f"{picture.name}.png": picture.png}
    return write_files(folder, contents)
