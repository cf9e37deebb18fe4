"""What the wheel holds: everything that an installed oretro opens, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SETUPTOOLS = 77
"""The first that reads the licence of pyproject.toml as it stands there."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in a wheel that is built here, without a network."""
    try:
        found = version("setuptools")
    except PackageNotFoundError:
        found = "0"
    if int(found.partition(".")[0]) < SETUPTOOLS:
        pytest.skip(f"setuptools {found} is too old to build oretro: pip install -U setuptools")
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "retrofit", "experiments", "configs", "*.py", "*.toml", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    if not tracked:
        pytest.skip("this is no git checkout, whose files the wheel is built from")
    for name in (*tracked, "LICENSE"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    flags = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", str(source), *flags, "--wheel-dir", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    (built,) = place.glob("oretro-*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_everything_that_is_opened_is_in_the_wheel(wheel: set[str]) -> None:
    opened = {
        *(path.relative_to(ROOT).as_posix() for path in (ROOT / "retrofit/assets").iterdir()),
        *(
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / "experiments/report/template").iterdir()
        ),
        *(f"experiments/configs/{path.name}" for path in (ROOT / "configs").glob("*.yaml")),
        *(f"{name}/py.typed" for name in ("retrofit", "experiments")),
    }
    assert len(opened) > 10
    assert opened <= wheel


def test_every_module_and_nothing_else_is_in_the_wheel(wheel: set[str]) -> None:
    modules = {
        path.relative_to(ROOT).as_posix()
        for package in ("retrofit", "experiments")
        for path in (ROOT / package).rglob("*.py")
    }
    assert modules <= wheel
    tops = {name.partition("/")[0] for name in wheel}
    assert {name for name in tops if not name.endswith(".dist-info")} == {
        "experiments",
        "oretro.py",
        "retrofit",
    }
