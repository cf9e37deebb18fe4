"""Figures of the README and the docs, filled in from ``results/`` and nowhere else.

A block stands between ``<!-- results: FOLDER WHAT -->`` and ``<!-- end -->`` for the folder of a
sweep, or begins with ``<!-- results: PAGE.md#heading table -->`` for the first table under a
heading of any page. Run ``python -m experiments.report.readme`` to fill every block anew; a test
checks that none is out of date.
"""

from __future__ import annotations

import datetime
import itertools
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.errors import ConfigError
from experiments.report import markdown
from experiments.report.contents import parts
from experiments.report.summary import Summary, summarise_folder
from retrofit.files.atomic import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = re.compile(
    r"(?P<start><!-- results: (?P<folder>\S+) (?P<what>\S+) -->\n)"
    r"(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)
TABLE = "table"
NOT_MEASURED = "_Not measured yet._"


def fill(text: str, results: Path) -> str:
    """Return ``text`` with every block made anew from the folders under ``results``.

    A block whose folder is not there says that it was not measured.

    Raises:
        ConfigError: a block asks for something that is not in ``PARTS``.
        ResultsError: a results folder cannot be trusted.
    """

    def made(block: re.Match[str]) -> str:
        what, folder = block["what"], results / block["folder"]
        if what not in (*PARTS, TABLE):
            raise ConfigError(f"README block '{what}' is not one of {', '.join((*PARTS, TABLE))}")
        body = NOT_MEASURED
        page, _, heading = block["folder"].partition("#")
        if what == TABLE and (results / page).is_file():
            body = _first_table(results / page, heading)
        if (folder / "cases.csv").is_file():
            body = PARTS[what](read_folder(folder))
        return f"{block['start']}{body}\n{block['end']}"

    return BLOCK.sub(made, text)


def _first_table(page: Path, heading: str) -> str:
    """The first table under a heading, which is named as a link to it would name it."""
    for section in re.split(r"^#+ ", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        title, *lines = section.split("\n")
        if re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") == heading:
            rows = itertools.dropwhile(lambda line: not line.startswith("|"), lines)
            return "\n".join(itertools.takewhile(lambda line: line.startswith("|"), rows))
    raise ConfigError(f"README block: {page} has no heading '{heading}'")


def read_folder(folder: Path) -> Summary:
    """Summarise a results folder at the margin that it was run with."""
    from experiments.sweep import run_record

    margin_pct = run_record.read(folder)["config"]["equivalence_margin_pct"]
    return summarise_folder(folder, margin_pct=margin_pct)


def _table(key: str) -> Callable[[Summary], str]:
    return lambda summary: markdown.table(*parts(summary)[key].table)


def _time(summary: Summary) -> str:
    times, machine = summary.run["times"], summary.run["machine"]
    start, end = (datetime.datetime.fromisoformat(times[key]) for key in ("started", "finished"))
    minutes = (end - start).total_seconds() / 60
    return f"The run took {minutes:.1f} minutes on {machine['torch_threads']} CPU threads."


PARTS: dict[str, Callable[[Summary], str]] = {
    **{key: _table(key) for key in ("changes", "baselines", "cases")},
    "remarks": markdown.remark_list,
    "time": _time,
}


def pages(root: Path) -> list[Path]:
    """Every page of a checkout that may hold blocks."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def main() -> None:
    """Fill the pages of this checkout."""
    root = Path(__file__).parents[2]
    for page in pages(root):
        old = page.read_text(encoding="utf-8")
        new = fill(old, root / "results")
        write_atomic(page, new)
        state = "is up to date" if new == old else "was filled anew"
        sys.stdout.write(f"{page.name} {state}\n")


if __name__ == "__main__":
    main()
