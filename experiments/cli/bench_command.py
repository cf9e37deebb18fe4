"""``oretro bench``: the cost of a patched host beside stock, as ratios with their spread."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """Examples:

  oretro bench                          the built-in host, variants oa and full

  oretro bench --variants closed        another variant

  oretro bench my-v3.ckpt --rounds 30   another host, more rounds
"""


def bench(
    host: Annotated[str, typer.Argument(help="mini, an official name, or a path.")] = "mini",
    variants: Annotated[str, typer.Option(help="Variants, separated by commas.")] = "oa,full",
    rounds: Annotated[int, typer.Option(min=3, help="Interleaved rounds per shape.")] = 15,
    threads: Annotated[int, typer.Option(min=0, help="Threads of torch; 0: as it is.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "cpu",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for bench.csv and bench.md.")
    ] = None,
) -> None:
    """Time patched forward passes beside stock's, interleaved, after a check that they agree."""
    import torch

    import retrofit
    from experiments.cli.output import built_in_notice, print_table, say
    from experiments.io.writable import prepare_out
    from experiments.machine.device import resolve_device
    from experiments.report.columns import show
    from experiments.studies.bench.forward import COLUMNS, write_bench
    from experiments.studies.bench.forward import bench as run_bench

    if out is not None:
        prepare_out(out)
    if threads:
        torch.set_num_threads(threads)
    where = resolve_device(device)
    loaded = retrofit.load_host(host)
    names = [name.strip() for name in variants.split(",")]
    rows = run_bench(loaded, names, rounds=rounds, device=where)
    print_table(
        f"One forward pass of {host}, variant beside stock, {rounds} rounds", *show(COLUMNS, rows)
    )
    notice = built_in_notice(loaded.sha256)
    if notice:
        say(notice)
    if out is not None:
        command = ["oretro", *sys.argv[1:]]
        for path in write_bench(out, host, rows, command, built_in=bool(notice), device=where):
            say(f"wrote {path}")
