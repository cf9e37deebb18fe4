"""Results as markdown. Every page says whose model it is about and what it does not claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.io.text import visible
from experiments.report.contents import parts
from experiments.report.remarks import Code, notice, remarks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from experiments.report.remarks import Sentence
    from experiments.report.summary import Summary


def page(parts: Iterable[str]) -> str:
    """Paragraphs as a whole page; empty ones are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"


def section(title: str, *paragraphs: str) -> str:
    """Paragraphs under a heading of the second level."""
    return "\n\n".join((f"## {title}", *paragraphs))


def summary_page(summary: Summary) -> str:
    """The whole of ``summary.md``."""
    found = parts(summary)
    paragraphs = [f"# {escape(summary.suite)} on host `{summary.host}`"]
    paragraphs += [table(*found[key].table) for key in ("changes", "tests", "scores")]
    if found["presence"].table.rows:
        paragraphs.append(section(found["presence"].title, table(*found["presence"].table)))
    paragraphs.append(remark_list(summary))
    paragraphs.append(section("Cases", table(*found["cases"].table)))
    if summary.failures:
        lines = [f"- {escape(line)}" for line in summary.failures]
        paragraphs.append(section("Failed rows", "\n".join(lines)))
    return page(paragraphs)


def baseline_page(summary: Summary) -> str:
    """The whole of ``baselines.md``."""
    lead = (
        "RMSE of the stock host divided by that of the baseline on the same splits, geometric mean "
        "over seeds; below 1 the host is better."
    )
    whose = line(notice(summary.host)) if summary.built_in else ""
    title = f"# Stock host `{summary.host}` against untuned scikit-learn models"
    return page([title, lead, table(*parts(summary)["baselines"].table), whose])


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
