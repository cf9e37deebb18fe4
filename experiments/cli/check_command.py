"""``oretro check``: measure the laws of the operators against their bounds."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro check                                 every law, dtype and kernel on the CPU
  oretro check --dtype float32 --device cuda   one dtype on a GPU
  oretro check --memory --out results/contracts    what the project publishes
"""


class Dtype(str, Enum):
    """What operators are checked in."""

    float64 = "float64"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


class Device(str, Enum):
    """Where operators are checked."""

    cpu = "cpu"
    cuda = "cuda"


def check(
    dtype: Annotated[
        list[Dtype] | None,
        typer.Option("--dtype", help="Repeat for several; all four by default."),
    ] = None,
    device: Annotated[Device, typer.Option(help="Where to run.")] = Device.cpu,
    seed: Annotated[int, typer.Option(help="Seed of the inputs.")] = 0,
    memory: Annotated[
        bool, typer.Option("--memory", help="Measure one long attention's peak memory too; Linux.")
    ] = False,
    out: options.OutFolder = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure functions, modules and hosts' twins against their laws; exit 1 if one is broken."""
    from experiments.cli.output import (
        command_line,
        print_json,
        print_table,
        progress,
        say,
        say_written,
    )
    from experiments.io.writable import prepare_out
    from experiments.studies.check.check import (
        DTYPES,
        CheckConfig,
        figure_cells,
        kind_cells,
        law_cells,
        memory_cells,
        run_check,
        write_check,
    )

    if out is not None:
        prepare_out(out)
    names = {item.value for item in dtype or []}
    dtypes = tuple(name for name in DTYPES if not names or name in names)
    config = CheckConfig(dtypes, device.value, seed, memory)
    result = run_check(config, report=progress(quiet))
    if as_json:
        print_json({"figures": result.figures.to_dict("records"), "memory": result.memory})
    else:
        for name, figures in result.figures.groupby("dtype", sort=False):
            print_table(f"{name}: worst L-inf (ulp)", *law_cells(figures))
        print_table("functions, modules and twins", *kind_cells(result.figures))
        if len(result.failed):
            print_table("beyond their bound", *figure_cells(result.failed))
        if result.memory:
            print_table("peak memory", *memory_cells(result.memory))
    if out is not None:
        say_written(write_check(result, out, command_line()))
    say(f"{len(result.figures)} figures, {len(result.failed)} beyond their bound")
    if not result.ok:
        raise typer.Exit(1)
