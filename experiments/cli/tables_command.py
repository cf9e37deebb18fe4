"""``oretro bench-tables``: many tables in padded passes against one table after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Examples:

  oretro bench-tables                              64 tables on the built-in host

  oretro bench-tables my-v3.ckpt --tables 16 --members 1
"""


def bench_tables(
    host: Annotated[str, typer.Argument(help="mini, an official name, or a path.")] = "mini",
    tables: Annotated[int, typer.Option(min=1, help="Number of tables.")] = 64,
    members: Annotated[
        list[int] | None, typer.Option(help="Ensemble members; may be repeated. [1 and 8]")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds.")] = 5,
    threads: Annotated[int, typer.Option(min=0, help="Threads of torch; 0: as it is.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "cpu",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for tables.csv, .md and .json.")
    ] = None,
) -> None:
    """Compare predict_tables with a loop over tables: the same predictions, and how much faster."""
    import sys

    import torch

    import retrofit
    from experiments.cli.output import built_in_notice, print_table, say
    from experiments.io.writable import prepare_out
    from experiments.machine.device import resolve_device
    from experiments.report.columns import show
    from experiments.studies.bench.tables import COLUMNS, write_tables_bench
    from experiments.studies.bench.tables import bench_tables as run_bench

    if out is not None:
        prepare_out(out)
    if threads:
        torch.set_num_threads(threads)
    where = resolve_device(device)
    loaded = retrofit.load_host(host)
    rows = run_bench(
        loaded,
        tables=tables,
        members=tuple(members or (1, 8)),
        rounds=rounds,
        device=where,
        progress=say,
    )
    print_table(f"{tables} tables on {host}, padded beside one by one", *show(COLUMNS, rows))
    if notice := built_in_notice(loaded.sha256):
        say(notice)
    if out is not None:
        built_in = bool(notice)
        command = ["oretro", *sys.argv[1:]]
        for path in write_tables_bench(out, host, rows, command, built_in=built_in):
            say(f"wrote {path}")
