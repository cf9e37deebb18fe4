"""Every example runs as it stands, in a process and a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SAID = {
    "patch_and_predict.py": "largest difference",
    "null_rows.py": "declared NULL",
    "attributions.py": "[",
}


def test_every_example_is_listed() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(SAID)


@pytest.mark.parametrize("name", sorted(SAID))
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    assert SAID[name] in done.stdout
    if name == "null_rows.py":
        first, second = (line.partition(":")[2].split() for line in done.stdout.splitlines())
        assert first == second
    if name == "attributions.py":
        assert (tmp_path / "importances.png").stat().st_size > 1000
