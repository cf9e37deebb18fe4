"""``oretro pretrain``: train the built-in mini host from synthetic tasks, and export it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def pretrain(
    config: Annotated[Path, typer.Argument(help="YAML file of the run.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of checkpoints, log and learning curve.")
    ] = Path("runs/pretrain"),
) -> None:
    """Train the built-in mini host; run again to resume after a stop or a kill."""
    from experiments.pretrain.config import load_config
    from experiments.pretrain.trainer import train

    done = train(load_config(config), out)
    if not done:
        raise typer.Exit(130)
