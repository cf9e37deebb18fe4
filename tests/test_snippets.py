"""The Python of the README and the docs runs as it stands, in a process and a folder of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def python_of(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    # tests/closure runs closure.md; bring-your-own.md goes on from a table of the reader's.
    if python_of(page) and page.name not in ("closure.md", "bring-your-own.md")
]


def test_a_first_prediction_takes_six_lines() -> None:
    first = python_of(ROOT / "README.md")[0]
    lines = [line for line in first.splitlines() if line.strip()]
    assert len(lines) <= 6
    assert "presence=" in first
    assert ".predict(" in first


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(python_of(page))],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-1000:]
