"""Paths as a user writes them."""

from __future__ import annotations

import os
from pathlib import Path


def expand_home(path: str | os.PathLike[str]) -> Path:
    """The path with ``~`` as the home folder.

    Where there is none, as for an account without one or a name that is no account, the path stays
    as it is and is then not found under that name.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111  (Path's own raises there)
