"""Commands as a user gives them, in this process."""

from __future__ import annotations

import sys

import pytest

from experiments.cli import main


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run a command and return its exit status."""
    monkeypatch.setattr(sys, "argv", ["oretro", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    return int(exit_.value.code or 0)
