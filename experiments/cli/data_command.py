"""``oretro data``: the data sets that a sweep can name, and the cache of those of OpenML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro data list
  oretro data show ames
  oretro data fetch openml18 --cache DIR
"""
data = typer.Typer(no_args_is_help=True, help="List, inspect and fetch data sets.", epilog=EXAMPLES)


LIST_EXAMPLES = """\b
Examples:
  oretro data list
  oretro data list --json
"""
SHOW_EXAMPLES = """\b
Examples:
  oretro data show ames
  oretro data show openml:361235 --cache DIR --offline
  oretro data show mine.csv --target price
"""
FETCH_EXAMPLES = """\b
Examples:
  oretro data fetch openml18 --cache DIR            download and check
  oretro data fetch openml18 --cache DIR --offline  check only
"""


@data.command("list", epilog=LIST_EXAMPLES)
def list_data(as_json: options.AsJson = False) -> None:
    """List every data set that has a name of its own; any other task is openml:ID."""
    from experiments.cli.output import print_json, print_table
    from experiments.data import available
    from experiments.data.openml.catalogue import KNOWN_TASKS
    from experiments.data.packaged import PACKAGED
    from experiments.report.columns import Column, show

    known = {**PACKAGED, **{task.label: task for task in KNOWN_TASKS.values()}}
    fields = {"suite": "", "rows": None, "columns": None}
    entries = [
        {"name": name, "source": source}
        | {field: getattr(known.get(name), field, empty) for field, empty in fields.items()}
        for source, name in available()
    ]
    if as_json:
        print_json(entries)
        return
    headers = {"name": "data set"}
    columns: list[Column[Any]] = [Column(key, headers.get(key, key)) for key in entries[0]]
    print_table("", *show(columns, entries))


@data.command("show", epilog=SHOW_EXAMPLES)
def show_data(
    name: Annotated[str, typer.Argument(help="A name from 'oretro data list', or a file.")],
    target: options.Target = None,
    drop: options.Dropped = None,
    words: options.Words = None,
    text: options.Text = None,
    dates: options.Dates = None,
    decimal: options.Decimal = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    cache: options.Cache = None,
    offline: options.Offline = False,
    as_json: options.AsJson = False,
) -> None:
    """Load one data set and show what a sweep would see of it."""
    from experiments.cli.data_options import file_fields, file_options, openml_options
    from experiments.cli.output import print_json, print_table, say_if_shadowed
    from experiments.data.facts import load_only, table_facts
    from experiments.io.text import visible
    from experiments.sweep.config import load_config

    fields = file_fields(
        target=target,
        drop=drop,
        words=words,
        text=text,
        dates=dates,
        decimal=decimal,
        delimiter=delimiter,
        encoding=encoding,
    )
    built_in = _is_built_in(name)
    # A file without --target is told so, rather than that it is no data set's name.
    path = Path(name) if target or (Path(name).is_file() and not built_in) else None
    if path is None and built_in:
        say_if_shadowed(name, "data set")
    given = {
        **file_options(path, fields),
        "datasets": [] if path else [name],
        "openml": openml_options(cache, offline=offline),
    }
    table = load_only(load_config("packaged18", given))
    facts = table_facts(table)
    if as_json:
        print_json(facts)
        return
    notes = facts.pop("notes")
    print_table("", ("fact", "value"), [(key, str(value)) for key, value in facts.items()])
    for note in notes:
        typer.echo(f"note: {visible(note)}")


def _is_built_in(name: str) -> bool:
    from experiments.data import resolve
    from experiments.errors import DataError

    try:
        resolve(name)
    except DataError:
        return False
    return True


@data.command("fetch", epilog=FETCH_EXAMPLES)
def fetch_data(
    config: options.Config,
    cache: options.Cache = None,
    offline: options.Offline = False,
    as_json: options.AsJson = False,
) -> None:
    """Download what a configuration needs of OpenML, and check every file of it.

    The folder can then be copied to a machine without a network. Nothing in it is ever replaced.
    """
    from experiments.cli.data_options import openml_options
    from experiments.cli.output import print_json, print_table, say
    from experiments.data.facts import fetch
    from experiments.sweep.config import load_config

    given = {"openml": openml_options(cache, offline=offline)}
    states = list(fetch(load_config(config, given), progress=say))
    if as_json:
        print_json(states)
    elif not states:
        say("nothing to fetch: no data set of this configuration comes from OpenML")
    else:
        header = ("data set", "state", "rows", "columns", "checked", "file")
        rows = [
            (item.name, item.state, str(item.rows), str(item.columns), item.checked, item.file)
            for item in states
        ]
        print_table("", header, rows)
    for item in states:
        if item.problem:
            say(f"{item.name}: {item.problem}")
    if any(item.problem for item in states):
        raise typer.Exit(1)
