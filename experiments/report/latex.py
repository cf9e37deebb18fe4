"""Results as LaTeX tables, to be read in with ``\\input``; they need the package booktabs.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from experiments.io.text import REPLACEMENT, visible
from experiments.report.columns import Number
from experiments.report.contents import parts
from experiments.report.remarks import plain, remarks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from experiments.report.columns import Cells
    from experiments.report.summary import Summary

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    # After the end of a row, LaTeX takes a bare "[" or "*" for an argument of it.
    "[": "{[}",
    "*": "{*}",
    "`": r"\textasciigrave{}",
    "–": r"\textendash{}",
    "…": r"\ldots{}",
    REPLACEMENT: "?",
}

_LIGATURES = re.compile("-(?=-)|,(?=,)|'(?=')")
"""What LaTeX would join with the next mark: a dash, a quotation mark."""

_MINUS = re.compile(r"(?<!\w)-(?=\d)")
"""Before a number, but not in an exponent."""

_PARTS = ("changes", "tests", "scores", "cases")


def escape(text: Any) -> str:
    """Text that LaTeX prints as it is."""
    escaped = "".join(_ESCAPES.get(mark, mark) for mark in visible(text))
    return _LIGATURES.sub(r"\g<0>{}", escaped)


def tabular(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A booktabs ``tabular``; the first column is text, the others are aligned right."""
    lines = [
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        _line(header),
        r"\midrule",
        *(_line(row) for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def summary_file(summary: Summary) -> str:
    """The whole of ``summary.tex``: changes, tests, scores and cases, one ``table`` each."""
    about = f"{summary.suite} on host {summary.host}: "
    notes = {"changes": [plain(remark) for remark in remarks(summary)]}
    floats = [
        _table(about + title if key in notes else title, key, table, notes.get(key, []))
        for key, (title, table) in parts(summary).items()
        if key in _PARTS
    ]
    lead = (
        "% Made by `oretro report`; do not edit. Needs \\usepackage[T1]{fontenc} and "
        "\\usepackage{booktabs}.\n"
        "% Names in other scripts than Latin need lualatex or xelatex and a font that has them.\n"
    )
    return lead + "\n\n".join(floats) + "\n"


def _table(caption: str, label: str, table: Cells, notes: Sequence[str]) -> str:
    text = " ".join(escape(part) for part in (f"{caption}.", *notes))
    return "\n".join(
        (
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{text}}}",
            rf"\label{{tab:oretro-{label}}}",
            tabular(*table),
            r"\end{table}",
        )
    )


def _line(cells: Sequence[str]) -> str:
    return " & ".join(_cell(cell) for cell in cells) + r" \\"


def _cell(text: str) -> str:
    """A negative number gets a minus in place of a hyphen."""
    escaped = escape(text)
    return _MINUS.sub("$-$", escaped) if isinstance(text, Number) else escaped
