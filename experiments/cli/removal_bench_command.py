"""``oretro bench-removal``: every row held out, beside refits and tabpfn's own batches."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro bench-removal                        100 rows on the built-in host, 1 and 8 members
  oretro bench-removal --rows 40 --members 1 --rounds 3
  oretro bench-removal --shapley --out results/removal-mini
"""


def bench_removal(
    host: options.Host = "mini",
    rows: Annotated[int, typer.Option(min=4, help="Rows to hold out.")] = 100,
    members: Annotated[
        list[int] | None, typer.Option(help="Ensemble members; may be repeated. [1 and 8]")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds.")] = 5,
    shapley: Annotated[
        bool, typer.Option("--shapley", help="Shapley values of columns too, fewest members.")
    ] = False,
    threads: options.Threads = 0,
    device: options.Device = "cpu",
    out: options.OutFolder = None,
) -> None:
    """Compare leave-one-out by a removable table with a loop of refits: how close, how fast."""
    from experiments.cli.bench_command import prepare, say_whose
    from experiments.cli.output import command_line, print_table, say, say_written
    from experiments.report.columns import show
    from experiments.studies.bench import shapley as columns
    from experiments.studies.bench.removal import COLUMNS, bench_values, write_removal_bench
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
    values = []
    if shapley:
        values = bench_values(
            loaded,
            rows=rows,
            members=(min(members or (1,)),),
            rounds=min(rounds, 3),
            device=where,
            progress=say,
        )
        print_table("Exact Shapley values of columns", *show(columns.COLUMNS, values))
    built_in = say_whose(loaded)
    if out is not None:
        written = write_removal_bench(
            out, loaded, found, command_line(), built_in=built_in, values=values
        )
        say_written(written)
