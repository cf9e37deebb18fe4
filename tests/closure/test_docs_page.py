"""The Python of the page on NULL rows and columns runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "closure.md"


def test_the_page_s_python_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    exec("".join(blocks), names)
    assert np.array_equal(np.isnan(names["predicted"]), np.arange(6) == 2)
    assert [len(prediction) for prediction in names["predictions"]] == [6, 6]
