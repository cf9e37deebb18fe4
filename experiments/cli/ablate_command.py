"""``oretro ablate``: the two-block study, and each O-component switched off in turn."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro ablate                                20 seeds, widths 64 and 256, 2 and 8 blocks
  oretro ablate --seeds 2 --width 64           a quick look
  oretro ablate --out results/ablation         CSV, markdown, figure and run record as well
"""


def ablate(
    seeds: Annotated[int, typer.Option(min=1, help="How many sets of weights and tokens.")] = 20,
    width: Annotated[
        list[int] | None,
        typer.Option("--width", min=4, help="Multiple of 4; repeat for several; 64 and 256."),
    ] = None,
    depth: Annotated[
        list[int] | None,
        typer.Option("--depth", min=1, help="Blocks; repeat for several; 2 and 8."),
    ] = None,
    out: options.OutFolder = None,
    figures: options.Figures = True,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Insert a zero token into a standard host, an OA-only host and an OTransformer."""
    from experiments.cli.output import command_line, print_json, print_table, progress, say_written
    from experiments.errors import ConfigError
    from experiments.io.writable import prepare_out
    from experiments.studies.ablation.ablation import (
        AblationConfig,
        after_last_block,
        run_ablation,
        summarise,
    )
    from experiments.studies.ablation.report import overview, write_ablation

    if out is not None:
        prepare_out(out)
    default = AblationConfig()
    widths, depths = tuple(width or default.widths), tuple(depth or default.depths)
    if odd := [size for size in widths if size % default.heads]:
        raise ConfigError(f"--width {odd[0]}: not a multiple of the {default.heads} heads")
    config = AblationConfig(seeds=seeds, widths=widths, depths=depths)
    found = run_ablation(config, report=progress(quiet))
    summary = summarise(found)
    if as_json:
        print_json(after_last_block(summary).to_dict("records"))
    else:
        for title, cells in overview(summary):
            print_table(f"{title}: median (largest)", *cells)
    if out is not None:
        say_written(write_ablation(found, config, out, command_line(), with_figure=figures))
