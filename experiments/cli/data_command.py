"""``oretro data``: the data sets that a sweep can name."""

from __future__ import annotations

from typing import Annotated

import typer

data = typer.Typer(no_args_is_help=True, help="List and inspect data sets.")


@data.command("list")
def list_data(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")
    ] = False,
) -> None:
    """List every data set that can be named without a network."""
    from experiments.cli.output import print_json, print_table
    from experiments.data import available

    entries = available()
    if as_json:
        print_json([{"source": source, "name": name} for source, name in entries])
        return
    print_table("", ("data set", "source"), [(name, source) for source, name in entries])


@data.command("show")
def show_data(
    name: Annotated[str, typer.Argument(help="A name from 'oretro data list'.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")
    ] = False,
) -> None:
    """Load one data set and show what a sweep would see of it."""
    from experiments.cli.output import print_json, print_table
    from experiments.data import load_table

    table = load_table(name)
    facts = {
        "name": table.name,
        "source": table.source,
        "licence": table.licence,
        "target": table.target,
        "rows": len(table.y),
        "columns": table.X.shape[1],
        "categorical": len(table.categorical),
        "missing_cells": int(table.X.isna().sum().sum()),
        "dropped_rows": table.dropped_rows,
        "sha256": table.sha256,
        "notes": list(table.notes),
    }
    if as_json:
        print_json(facts)
        return
    shown = facts | {"notes": "; ".join(table.notes) or "none"}
    rows = [(key, str(value)) for key, value in shown.items()]
    print_table("", ("fact", "value"), rows)
