"""``oretro study-removal``: what the two scopes, intervals and values are worth, measured."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli import removal_options as removal

EXAMPLES = """\b
Examples:
  oretro study-removal gap            the two scopes beside each other, packaged sets
  oretro study-removal mislabelled --out results/removal-mini
"""


def study_removal(
    study: Annotated[
        str, typer.Argument(help="gap, coverage, mislabelled or equality.", show_default=False)
    ],
    host: removal.HostOption = "mini",
    threads: options.Threads = 0,
    out: options.OutFolder = None,
) -> None:
    """Measure what removal says: its scopes' gap, coverage, shuffled targets, refits."""
    from experiments.cli.bench_command import prepare, say_whose
    from experiments.cli.output import command_line, print_table, say, say_written
    from experiments.studies.removal.study import STUDIES, run, table, write

    loaded, _ = prepare(host, threads, "cpu", out)
    frame = run(study, loaded, say)
    print_table(STUDIES[study][0], *table(study, frame))
    built_in = say_whose(loaded)
    if out is not None:
        say_written(write(out, study, loaded, frame, command_line(), built_in))
