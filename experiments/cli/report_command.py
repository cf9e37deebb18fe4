"""``oretro report``: a results folder as pages, tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro report runs/packaged18-mini                    into the same folder
  oretro report results/packaged18-mini --out my-report into another one
  oretro report results/packaged18-mini --no-figures    without matplotlib
"""


def report(
    folder: Annotated[Path, typer.Argument(help="A results folder.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write. [the results folder]"),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(min=1e-6, help="Margin of the equivalence test, in percent. [the run's]"),
    ] = None,
    figures: options.Figures = True,
    as_json: options.AsJson = False,
) -> None:
    """Write markdown, LaTeX, figures and a self-contained HTML page from a results folder."""
    from experiments.cli.output import print_json, summary_json
    from experiments.report.report import write_report

    written = write_report(folder, out, margin_pct=margin, figures=figures)
    if as_json:
        files = [str(path) for path in written.files]
        print_json({"files": files, **summary_json(written.summary)})
        return
    for path in written.files:
        typer.echo(path)
