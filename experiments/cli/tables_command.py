"""``oretro bench-tables``: many tables in padded passes against one table after the other."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro bench-tables                              64 tables on the built-in host
  oretro bench-tables my-v3.ckpt --tables 16 --members 1
"""


def bench_tables(
    host: options.Host = "mini",
    tables: Annotated[int, typer.Option(min=1, help="Number of tables.")] = 64,
    members: Annotated[
        list[int] | None, typer.Option(help="Ensemble members; may be repeated. [1 and 8]")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds.")] = 5,
    threads: options.Threads = 0,
    device: options.Device = "cpu",
    out: options.OutFolder = None,
) -> None:
    """Compare predict_tables with a loop over tables: the same predictions, and how much faster."""
    from experiments.cli.bench_command import prepare, say_whose
    from experiments.cli.output import command_line, print_table, say, say_written
    from experiments.report.columns import show
    from experiments.studies.bench.tables import COLUMNS, write_tables_bench
    from experiments.studies.bench.tables import bench_tables as run_bench

    loaded, where = prepare(host, threads, device, out)
    rows = run_bench(
        loaded,
        tables=tables,
        members=tuple(members or (1, 8)),
        rounds=rounds,
        device=where,
        progress=say,
    )
    print_table(f"{tables} tables on {host}, padded beside one by one", *show(COLUMNS, rows))
    built_in = say_whose(loaded)
    if out is not None:
        say_written(write_tables_bench(out, host, rows, command_line(), built_in=built_in))
