"""``oretro bench``: the cost of a patched host beside stock, as ratios with their spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options

if TYPE_CHECKING:
    from pathlib import Path

    import retrofit

EXAMPLES = """\b
Examples:
  oretro bench                          the built-in host, variants oa and full
  oretro bench --variants closed        another variant
  oretro bench my-v3.ckpt --rounds 30   another host, more rounds
"""


def bench(
    host: options.Host = "mini",
    variants: Annotated[str, typer.Option(help="Variants, separated by commas.")] = "oa,full",
    rounds: Annotated[int, typer.Option(min=3, help="Interleaved rounds per shape.")] = 15,
    threads: options.Threads = 0,
    device: options.Device = "cpu",
    out: options.OutFolder = None,
) -> None:
    """Time patched forward passes beside stock's, interleaved, after a check that they agree."""
    from experiments.cli.output import command_line, print_table, say_written
    from experiments.report.columns import show
    from experiments.studies.bench.forward import COLUMNS, write_bench
    from experiments.studies.bench.forward import bench as run_bench

    loaded, where = prepare(host, threads, device, out)
    names = [name.strip() for name in variants.split(",")]
    rows = run_bench(loaded, names, rounds=rounds, device=where)
    title = f"One forward pass of {host}, variant beside stock, {rounds} rounds"
    print_table(title, *show(COLUMNS, rows))
    built_in = say_whose(loaded)
    if out is not None:
        command = command_line()
        say_written(write_bench(out, host, rows, command, built_in=built_in, device=where))


def prepare(host: str, threads: int, device: str, out: Path | None) -> tuple[retrofit.Host, str]:
    """The host to time and the device to time it on; nothing is computed if it cannot be kept."""
    import torch

    import retrofit
    from experiments.io.writable import prepare_out
    from experiments.machine.device import resolve_device
    from experiments.machine.threads import refuse_too_many

    refuse_too_many(threads)
    if out is not None:
        prepare_out(out)
    if threads:
        torch.set_num_threads(threads)
    where = resolve_device(device)
    return retrofit.load_host(host), where


def say_whose(host: retrofit.Host) -> bool:
    """Say whose figures these are, and whether they are of the built-in host."""
    from experiments.cli.output import built_in_notice, say

    if notice := built_in_notice(host.sha256):
        say(notice)
    return bool(notice)
