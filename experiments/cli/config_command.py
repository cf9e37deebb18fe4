"""``oretro config``: the configurations that come with oretro."""

from __future__ import annotations

import typer

from experiments.cli import options

EXAMPLES = """\b
Examples:
  oretro config list
  oretro config list --json
"""
config = typer.Typer(no_args_is_help=True, help="List built-in configurations.", epilog=EXAMPLES)


@config.callback()
def _group() -> None:
    """Keep `config` a group of commands."""


@config.command("list", epilog=EXAMPLES)
def list_configs(as_json: options.AsJson = False) -> None:
    """List the built-in configurations of 'oretro eval', with what each is for."""
    from experiments.cli.output import print_json, print_table
    from experiments.sweep.config import builtin_configs, first_remark

    entries = [(name, first_remark(path)) for name, path in builtin_configs().items()]
    if as_json:
        print_json([{"name": name, "about": about} for name, about in entries])
        return
    print_table("", ("", ""), entries)
