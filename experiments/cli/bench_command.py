"""``oretro bench``: the cost of a patched host beside stock, as ratios with their spread."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options

if TYPE_CHECKING:
    import retrofit

EXAMPLES = """\b
Examples:
  oretro bench                              the built-in host, every variant
  oretro bench --shape 400+100x10x8 --threads 1 --threads 2 --memory
  oretro bench v3.5 --drawn --rounds 9      as large as the released model, weights drawn
  oretro bench --compare results/bench/bench.csv
"""


def bench(
    host: options.Host = "mini",
    drawn: Annotated[
        bool,
        typer.Option(
            "--drawn", help="HOST is a generation: its released size, weights drawn, no download."
        ),
    ] = False,
    variants: Annotated[
        str, typer.Option(help="Variants, separated by commas.")
    ] = "oa,full,closed",
    shape: Annotated[
        list[str] | None,
        typer.Option(help="TRAIN+TESTxCOLUMNS[xMEMBERS]; may be repeated. [four small ones]"),
    ] = None,
    rounds: Annotated[int, typer.Option(min=3, help="Interleaved rounds per shape.")] = 15,
    threads: Annotated[
        list[int] | None, typer.Option(min=1, help="CPU threads; may be repeated. [all]")
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Measure each pass's peak memory too; Linux.")
    ] = False,
    compare: Annotated[
        Path | None, typer.Option(help="An earlier bench.csv to show beside this one.")
    ] = None,
    device: options.Device = "cpu",
    out: options.OutFolder = None,
) -> None:
    """Time patched forward passes beside stock's, interleaved, after a check that they agree."""
    import torch

    from experiments.cli.output import command_line, print_table, say, say_written
    from experiments.errors import ConfigError
    from experiments.machine.threads import pinned_threads
    from experiments.report.columns import show
    from experiments.studies.bench import forward, write
    from experiments.studies.bench import memory as peak

    shapes = [forward.BenchShape.parse(text) for text in shape or ()] or forward.SHAPES
    names = [name.strip() for name in variants.split(",")]
    counts = threads or [torch.get_num_threads()]
    if memory and device != "cpu":
        raise ConfigError("--memory measures this machine's memory, not that of a GPU")
    loaded, where = prepare(host, max(counts), device, out, drawn=drawn)
    rows = []
    for count in counts:
        with pinned_threads(count):
            rows += forward.bench(
                loaded, names, shapes=shapes, rounds=rounds, device=where, progress=say
            )
    title = f"One forward pass of {loaded.name}, variant beside stock, {rounds} rounds"
    print_table(title, *show(forward.COLUMNS, rows))
    memories = peak.measure(host, drawn, names, shapes, max(counts)) if memory else []
    if memories:
        print_table("Peak memory of that pass", *show(peak.COLUMNS, memories))
    comparison = None
    if compare is not None:
        comparison = show(write.COMPARED, write.compared(rows, compare))
        print_table(f"Beside {compare}", *comparison)
    built_in = say_whose(loaded)
    if out is not None:
        written = write.write_bench(
            out, loaded.name, rows, command_line(), built_in=built_in, device=where,
            memories=memories, comparison=comparison,
        )  # fmt: skip
        say_written(written)


def prepare(
    host: str, threads: int, device: str, out: Path | None, *, drawn: bool = False
) -> tuple[retrofit.Host, str]:
    """The host to time and the device to time it on; nothing is computed if it cannot be kept."""
    import torch

    from experiments.io.writable import prepare_out
    from experiments.machine.device import resolve_device
    from experiments.machine.threads import refuse_too_many
    from experiments.studies.bench.memory import load

    refuse_too_many(threads)
    if out is not None:
        prepare_out(out)
    if threads:
        torch.set_num_threads(threads)
    where = resolve_device(device)
    return load(host, drawn=drawn), where


def say_whose(host: retrofit.Host) -> bool:
    """Say whose figures these are, and whether they are of the built-in host."""
    from experiments.cli.output import built_in_notice, say

    if notice := built_in_notice(host.sha256):
        say(notice)
    return bool(notice)
