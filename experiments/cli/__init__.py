"""The ``oretro`` command line. Commands import what is heavy inside their bodies.

Exit status: 0 all done, 1 some case or check failed, 2 usage or configuration, 130 interrupted.
"""

from __future__ import annotations

from experiments.cli import commands as _commands  # noqa: F401  (registers the commands)
from experiments.cli.app import app, main

__all__ = ["app", "main"]
