"""Every figure of the README comes from a file in ``results/``, and is up to date."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fakes import subjects

from experiments.errors import ConfigError
from experiments.report.readme import BLOCK, NOT_MEASURED, fill, pages
from experiments.sweep.config import SweepConfig
from experiments.sweep.run import run_sweep

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_pages_show_what_the_results_say() -> None:
    texts = [page.read_text(encoding="utf-8") for page in pages(ROOT)]
    assert [fill(text, ROOT / "results") for text in texts] == texts
    shown = {(block["folder"], block["what"]) for text in texts for block in BLOCK.finditer(text)}
    assert {("packaged18-mini", "changes"), ("packaged18_p99-mini", "changes")} <= shown


def test_no_measured_percentage_stands_outside_a_block() -> None:
    prose = BLOCK.sub("", README)
    # The two figures of the paper, which are its author's.
    assert re.findall(r"[-+]?\d+\.\d+ %", prose) == ["+0.088 %", "+0.177 %"]


def test_readme_says_whose_model_it_is_and_is_not() -> None:
    first_screen = README[:4500]
    assert "not Prior Labs' TabPFN v3" in first_screen
    assert "make eval" in first_screen
    assert "make test" in first_screen


def test_block_is_filled_from_its_folder_alone(toy_config: SweepConfig, tmp_path: Path) -> None:
    run_sweep(toy_config, tmp_path / "toy", load=lambda _: subjects())
    text = (
        "<!-- results: toy cases -->\nold\n<!-- end -->\n<!-- results: gone time -->\n<!-- end -->"
    )
    filled = fill(text, tmp_path)
    first, second = (block["body"] for block in BLOCK.finditer(filled))
    assert "| left | 1 |" in first
    assert "old" not in first
    assert second.strip() == NOT_MEASURED
    assert fill(filled, tmp_path) == filled
    run = json.loads((tmp_path / "toy" / "run.json").read_text())
    run["times"] = {"started": "2026-01-01T00:00:00+00:00", "finished": "2026-01-01T00:04:30+00:00"}
    (tmp_path / "toy" / "run.json").write_text(json.dumps(run))
    assert "took 4.5 minutes" in fill("<!-- results: toy time -->\n<!-- end -->", tmp_path)


def test_table_block_copies_the_first_table_under_its_heading(tmp_path: Path) -> None:
    page = "# T\n\n| no |\n\n## One, two\n\ntext\n\n| a |\n| - |\n| 1 |\n\n| b |\n\n## Three\n"
    (tmp_path / "page.md").write_text(page)
    filled = fill("<!-- results: page.md#one-two table -->\n<!-- end -->", tmp_path)
    assert filled == ("<!-- results: page.md#one-two table -->\n| a |\n| - |\n| 1 |\n<!-- end -->")
    with pytest.raises(ConfigError, match="no heading 'four'"):
        fill("<!-- results: page.md#four table -->\n<!-- end -->", tmp_path)
    gone = fill("<!-- results: gone.md#four table -->\n<!-- end -->", tmp_path)
    assert NOT_MEASURED in gone


def test_unknown_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="README block 'figures'"):
        fill("<!-- results: toy figures -->\n<!-- end -->", tmp_path)
