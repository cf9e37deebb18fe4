"""What the console script starts: the command line of the ``experiments`` that lies beside this.

A name as common as ``experiments`` can be that of a package of the user's own, which comes first on
the path of modules. ``oretro`` is nobody else's.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_HOME = Path(__file__).resolve().parent


def main() -> None:
    """Run the command line."""
    _put_own_packages_first()
    from experiments.cli import main as run

    run()


def _put_own_packages_first() -> None:
    """Only where another ``experiments`` or ``retrofit`` is in the way; worker processes follow."""
    for name in ("experiments", "retrofit"):
        found = importlib.util.find_spec(name)
        origin = None if found is None or found.origin is None else Path(found.origin).resolve()
        if origin is None or origin.parent.parent != _HOME:
            sys.path.insert(0, str(_HOME))
            return


if __name__ == "__main__":
    main()
