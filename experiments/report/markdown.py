"""Results as markdown. Every page says whose model it is about and what it does not claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.io.text import visible
from experiments.report.contents import parts
from experiments.report.remarks import MINI_NOTICE, Code, remarks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from experiments.report.remarks import Sentence
    from experiments.report.summary import Summary


def summary_page(summary: Summary) -> str:
    """The whole of ``summary.md``."""
    found = parts(summary)
    page = [f"# {escape(summary.suite)} on host `{summary.host}`"]
    page += [table(*found[key].table) for key in ("changes", "tests", "scores")]
    if found["presence"].table.rows:
        page.append(f"## {found['presence'].title}\n\n{table(*found['presence'].table)}")
    page.append(remark_list(summary))
    page.append(f"## Cases\n\n{table(*found['cases'].table)}")
    if summary.failures:
        lines = "\n".join(f"- {escape(line)}" for line in summary.failures)
        page.append(f"## Failed rows\n\n{lines}")
    return "\n\n".join(page) + "\n"


def baseline_page(summary: Summary) -> str:
    """The whole of ``baselines.md``."""
    lead = (
        "RMSE of the stock host divided by that of the baseline on the same splits, geometric mean "
        "over seeds; below 1 the host is better."
    )
    title = f"# Stock host `{summary.host}` against untuned scikit-learn models"
    notice = [line(MINI_NOTICE)] if summary.built_in else []
    page = [title, lead, table(*parts(summary)["baselines"].table), *notice]
    return "\n\n".join(page) + "\n"


def remark_list(summary: Summary) -> str:
    """The remarks as a list."""
    return "\n".join(f"- {line(remark)}" for remark in remarks(summary))


def line(sentence: Sentence) -> str:
    """A sentence with its names as code."""
    return "".join(f"`{part}`" if isinstance(part, Code) else part for part in sentence)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table; the first column is text, the others are aligned right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    escaped = [[escape(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *escaped))


def escape(text: Any) -> str:
    """Text that cannot end a table cell, start a formula or open a tag."""
    escaped = visible(text)
    for mark in "\\`*_$|<>[]":
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped
