"""``oretro compare``: two results folders side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro compare runs/packaged18-mini runs/p99
  oretro compare runs/mine runs/mine-8 --out mine.md    or .csv
"""


def compare(
    run_a: Annotated[Path, typer.Argument(help="A results folder.", show_default=False)],
    run_b: Annotated[Path, typer.Argument(help="Another one.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .csv of the cases, or a .md of it all.")
    ] = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare the RMSE of the cases that two runs share, and say what else differs."""
    from experiments.cli.output import print_json, print_table, printable, say, say_written
    from experiments.errors import ConfigError, ResultsError
    from experiments.report import compare as report
    from experiments.report.columns import show
    from experiments.report.remarks import plain as sentence
    from retrofit.errors import RetrofitError
    from retrofit.files.atomic import require_writable, write_atomic

    if out is not None:
        if out.suffix not in (".csv", ".md"):
            raise ConfigError(f"--out {out}: choose a name that ends in .csv or .md")
        try:
            out = require_writable(out, out.suffix, overwrite=overwrite, error=RetrofitError)
        except RetrofitError as error:
            raise ResultsError(str(error)) from None
    found = report.compare(run_a, run_b)
    if as_json:
        print_json(
            {
                "cases": found.cases,
                "means": found.means,
                "differences": found.differences,
                "other_cases": found.other_cases,
                "notice": sentence(found.notice),
            }
        )
    else:
        print_table(f"RMSE of {run_a} (A) and {run_b} (B)", *show(report.CASES, found.cases))
        print_table("", *show(report.MEANS, found.means))
        if found.differences:
            print_table("What differs", *found.terminal_differences())
        else:
            typer.echo("  Nothing in settings, host, data or versions differs.")
        if found.notice:
            typer.echo(printable(f"  {sentence(found.notice)}"))
    if found.other_cases:
        say(f"{found.other_cases} row(s) are not scored in both and left out")
    if out is not None:
        page = report.comparison_page(found, str(run_a), str(run_b))
        write_atomic(out, report.comparison_csv(found) if out.suffix == ".csv" else page)
        say_written([out])
