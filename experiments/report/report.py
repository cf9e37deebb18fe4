"""``oretro report``: a results folder as markdown, LaTeX, figures and one HTML page.

Reads ``cases.csv``, ``noise.csv`` and ``run.json``; imports neither torch nor tabpfn, so that a
report can be made anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.io.writable import write_files
from experiments.report import latex, markdown
from experiments.report.page import html_page
from experiments.report.summary import summarise_folder
from experiments.sweep.run_record import read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from experiments.report.plot_style import Picture
    from experiments.report.summary import Summary

DEFAULT_MARGIN_PCT = 0.5
FIGURE_FOLDER = "figures"


@dataclass(frozen=True)
class WrittenReport:
    """What was written, and from what."""

    summary: Summary
    files: tuple[Path, ...]


def write_report(
    folder: Path,
    out: Path | None = None,
    *,
    margin_pct: float | None = None,
    figures: bool = True,
) -> WrittenReport:
    """Write ``report.md``, ``summary.tex``, ``report.html`` and figures into ``out``.

    ``out`` is the results folder itself by default; ``margin_pct`` is that of its run.

    Raises:
        ResultsError: ``folder`` holds no results that can be trusted, or ``out`` is not writable.
        MissingExtraError: figures are wanted and matplotlib is not installed.
    """
    if margin_pct is None:
        config = read(folder).get("config", {})
        margin_pct = float(config.get("equivalence_margin_pct", DEFAULT_MARGIN_PCT))
    summary = summarise_folder(folder, margin_pct=margin_pct)
    drawn = _pictures(folder, summary) if figures else ()
    contents: dict[str, str | bytes] = {
        "report.md": _markdown(summary, drawn),
        "summary.tex": latex.summary_file(summary),
        "report.html": html_page(summary, drawn),
    }
    for picture in drawn:
        stem = f"{FIGURE_FOLDER}/{picture.name}"
        contents |= {f"{stem}.svg": picture.svg, f"{stem}.png": picture.png}
    return WrittenReport(summary, tuple(write_files(folder if out is None else out, contents)))


def _pictures(folder: Path, summary: Summary) -> Sequence[Picture]:
    from experiments.report.plots import about, pictures
    from experiments.report.predictions import prediction_pictures

    return (*pictures(summary), *prediction_pictures(folder, about(summary)))


def _markdown(summary: Summary, drawn: Sequence[Picture]) -> str:
    images = [
        f"![{markdown.escape(picture.title)}]({FIGURE_FOLDER}/{picture.name}.svg)"
        for picture in drawn
    ]
    return markdown.page([markdown.summary_page(summary).rstrip("\n"), *images])
