"""``oretro bench-removal``: every row held out, beside refits and tabpfn's own batches."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro bench-removal                        100 rows on the built-in host, 1 and 8 members
  oretro bench-removal --rows 40 --members 1 --rounds 3
"""


def bench_removal(
    host: options.Host = "mini",
    rows: Annotated[int, typer.Option(min=4, help="Rows to hold out.")] = 100,
    members: Annotated[
        list[int] | None, typer.Option(help="Ensemble members; may be repeated. [1 and 8]")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds.")] = 5,
    threads: options.Threads = 0,
    device: options.Device = "cpu",
    out: options.OutFolder = None,
) -> None:
    """Compare leave-one-out by a removable table with a loop of refits: how close, how fast."""
    from experiments.cli.bench_command import prepare, say_whose
    from experiments.cli.output import command_line, print_table, say, say_written
    from experiments.report.columns import show
    from experiments.studies.bench.removal import COLUMNS, write_removal_bench
    from experiments.studies.bench.removal import bench_removal as run_bench

    loaded, where = prepare(host, threads, device, out)
    found = run_bench(
        loaded,
        rows=rows,
        members=tuple(members or (1, 8)),
        rounds=rounds,
        device=where,
        progress=say,
    )
    print_table(f"{rows} rows held out on {host}", *show(COLUMNS, found))
    built_in = say_whose(loaded)
    if out is not None:
        say_written(write_removal_bench(out, loaded, found, command_line(), built_in=built_in))
