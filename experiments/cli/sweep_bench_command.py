"""``oretro bench-sweep``: what the harness adds to the predictions of a comparison."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro bench-sweep                          the 18 packaged cases, one round
  oretro bench-sweep --limit 3 --rounds 3
"""


def bench_sweep(
    host: options.Host = "mini",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first cases. [all]")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, each of both.")] = 1,
    threads: options.Threads = 0,
    out: options.OutFolder = None,
) -> None:
    """Time the packaged comparison beside a plain loop of the same predictions."""
    from experiments.cli.bench_command import prepare, say_whose
    from experiments.cli.output import command_line, print_table, say, say_written
    from experiments.report.columns import show
    from experiments.studies.bench import sweep
    from experiments.sweep.config import load_config

    loaded, _ = prepare(host, threads, "cpu", out)
    config = load_config("packaged18", {"host": host, "limit": limit, "threads": threads or None})
    rows = sweep.bench_sweep(config, rounds=rounds, progress=say)
    print_table(f"A sweep on {host} beside a plain loop", *show(sweep.COLUMNS, rows))
    built_in = say_whose(loaded)
    if out is not None:
        say_written(sweep.write_sweep_bench(out, host, rows, command_line(), built_in=built_in))
