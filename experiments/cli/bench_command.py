"""``oretro bench``: the cost of a patched host beside stock, as ratios with their spread."""

from __future__ import annotations

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
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for bench.csv and bench.md.")
    ] = None,
) -> None:
    """Time patched forward passes beside stock's, interleaved, after a check that they agree."""
    import torch

    import retrofit
    from experiments import markdown
    from experiments.atomic import write_atomic
    from experiments.bench import bench as run_bench
    from experiments.bench import table
    from experiments.cli.output import built_in_notice, print_table, say
    from experiments.provenance import machine, versions
    from experiments.writable import prepare_out

    if out is not None:
        prepare_out(out)
    if threads:
        torch.set_num_threads(threads)
    loaded = retrofit.load_host(host)
    rows = run_bench(loaded, [name.strip() for name in variants.split(",")], rounds=rounds)
    header = ("shape", "variant", "stock", "variant / stock", "quartiles", "kernels")
    cells = [
        (
            row.shape,
            row.variant,
            f"{row.stock_s * 1e3:.1f} ms",
            f"{row.ratio:.2f}",
            f"{row.ratio_low:.2f} to {row.ratio_high:.2f}",
            row.kernels,
        )
        for row in rows
    ]
    title = f"One forward pass of {host}, variant beside stock, {rounds} rounds"
    print_table(title, header, cells)
    notice = built_in_notice(loaded.sha256)
    if notice:
        say(notice)
    if out is not None:
        write_atomic(out / "bench.csv", table(rows).to_csv(index=False, lineterminator="\n"))
        about = {**machine(), **versions(("oretro", "tabpfn", "torch"))}
        facts = "\n".join(f"- {name}: {value}" for name, value in about.items())
        parts = (f"# {title}", notice, markdown.table(header, cells), facts)
        write_atomic(out / "bench.md", "\n\n".join(filter(None, parts)) + "\n")
