"""Commands as a user gives them, in this process or in one of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from experiments.cli import main


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run a command and return its exit status."""
    monkeypatch.setattr(sys, "argv", ["oretro", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    return int(exit_.value.code or 0)


def oretro(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "experiments.cli", *arguments]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run(oretro(*arguments), capture_output=True, text=True, env=env, check=False)
