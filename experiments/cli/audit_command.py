"""``oretro audit``: where a NULL row or column acts in a host, and which gate stops it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro audit                                  the built-in host, all variants
  oretro audit my-v3.ckpt --variant closed      one variant of another host
  oretro audit mini --out results/closure       the committed results
"""


def audit(
    host: options.Host = "mini",
    variant: Annotated[
        list[str] | None, typer.Option(help="stock, oa, full or closed; may be repeated. [all]")
    ] = None,
    out: options.OutFolder = None,
    figures: options.Figures = True,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Insert NULL rows and columns into a host's input and follow what they do, stage by stage."""
    import torch

    import retrofit
    from experiments.cli.output import command_line, print_json, progress, say
    from experiments.io.writable import prepare_out
    from experiments.studies.audit.audit import TOLERANCE
    from experiments.studies.audit.audit import audit as run_audit
    from experiments.studies.audit.leaks import closed_leak
    from experiments.studies.audit.page import page
    from experiments.studies.audit.write import write
    from retrofit.patching.sources import built_in_name
    from retrofit.words import VARIANTS

    if out is not None:
        prepare_out(out)
    # The table is tiny: threads would cost more than they gain, and reorder sums.
    torch.set_num_threads(1)
    loaded = retrofit.load_host(host)
    names = tuple(variant) if variant else ("stock", *VARIANTS)
    found = run_audit(loaded, names, progress=progress(quiet))
    tables = found.tables()
    about: dict[str, Any] = {
        "built_in": built_in_name(loaded.sha256) is not None,
        "command": " ".join(command_line()),
        "tolerance": TOLERANCE,
    }
    if out is not None:
        write(out, host, loaded.sha256, tables, about, command=command_line(), figures=figures)
        say(f"wrote {out}")
    if as_json:
        print_json({name: frame.to_dict("records") for name, frame in tables.items()})
    else:
        typer.echo(page(host, tables, **about, figure=None))
    leak = closed_leak(tables["stages"], TOLERANCE)
    if leak:
        say(f"the closed host leaks: {leak}")
        raise typer.Exit(1)
