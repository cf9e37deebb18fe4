"""``python -m experiments.cli``: the same as the ``oretro`` script."""

from __future__ import annotations

import experiments.cli.commands  # noqa: F401  (registers the commands)
from experiments.cli.app import main

if __name__ == "__main__":
    main()
