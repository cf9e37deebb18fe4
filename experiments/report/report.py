"""``oretro report``: a results folder as markdown, LaTeX, figures and one HTML page.

Reads ``cases.csv``, ``noise.csv`` and ``run.json``; imports neither torch nor tabpfn, so that a
report can be made anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.errors import ResultsError
from experiments.report import latex, markdown
from experiments.report.page import html_page
from experiments.report.summary import summarise_folder
from experiments.sweep.run_record import read
from retrofit.files.atomic import write_atomic

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
    target = folder if out is None else out
    drawn = _pictures(summary) if figures else ()
    try:
        (target / FIGURE_FOLDER if drawn else target).mkdir(parents=True, exist_ok=True)
        return WrittenReport(summary, tuple(_write(target, summary, drawn)))
    except OSError as error:
        reason = error.strerror or error
        raise ResultsError(
            f"{target}: the report cannot be written ({reason}); choose another --out"
        ) from error


def _pictures(summary: Summary) -> Sequence[Picture]:
    from experiments.report.plots import pictures

    return pictures(summary)


def _write(target: Path, summary: Summary, drawn: Sequence[Picture]) -> list[Path]:
    texts = {
        target / "report.md": _markdown(summary, drawn),
        target / "summary.tex": latex.summary_file(summary),
        target / "report.html": html_page(summary, drawn),
    }
    for path, text in texts.items():
        write_atomic(path, text)
    files = list(texts)
    for picture in drawn:
        stem = target / FIGURE_FOLDER / picture.name
        write_atomic(stem.with_suffix(".svg"), picture.svg)
        write_atomic(stem.with_suffix(".png"), picture.png)
        files += [stem.with_suffix(".svg"), stem.with_suffix(".png")]
    return files


def _markdown(summary: Summary, drawn: Sequence[Picture]) -> str:
    images = [
        f"![{markdown.escape(picture.title)}]({FIGURE_FOLDER}/{picture.name}.svg)"
        for picture in drawn
    ]
    return "\n\n".join((markdown.summary_page(summary).rstrip("\n"), *images)) + "\n"
