"""Registers every command with the application."""

from __future__ import annotations

from experiments.cli.app import app
from experiments.cli.pretrain_command import pretrain


@app.callback()
def _root() -> None:
    """Keep `oretro` a group of commands, however few are registered."""


app.command()(pretrain)
