"""Results as LaTeX tables, to be read in with ``\\input``; they need the package booktabs.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from experiments.io.text import REPLACEMENT, visible
from experiments.report import markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    """The whole of ``summary.tex``: changes, tests and cases, one ``table`` each."""
    config = summary.run.get("config", {})
    suite, host = config.get("suite", "results"), config.get("host", "unknown")
    notes = [line.replace("`", "") for line in markdown.remarks(summary)]
    floats = [
        _table(
            f"{suite} on host {host}: RMSE change against stock.",
            "changes",
            *markdown.change_rows(summary.variants),
            notes=notes,
        ),
        _table("Tests over data sets.", "tests", *markdown.test_rows(summary.variants)),
        _table("RMSE change of each case.", "cases", *markdown.case_rows(summary.pairs)),
    ]
    lead = (
        "% Made by `oretro report`; do not edit. Needs \\usepackage[T1]{fontenc} and "
        "\\usepackage{booktabs}.\n"
        "% Names in other scripts than Latin need lualatex or xelatex and a font that has them.\n"
    )
    return lead + "\n\n".join(floats) + "\n"


def _table(
    caption: str,
    label: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Sequence[str] = (),
) -> str:
    text = " ".join(escape(part) for part in (caption, *notes))
    return "\n".join(
        (
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{text}}}",
            rf"\label{{tab:oretro-{label}}}",
            tabular(header, rows),
            r"\end{table}",
        )
    )


def _line(cells: Sequence[str]) -> str:
    return " & ".join(_cell(cell) for cell in cells) + r" \\"


def _cell(text: str) -> str:
    """A negative number gets a minus in place of a hyphen."""
    negative = text.startswith("-") and text[1:2].isdigit()
    return f"$-${escape(text[1:])}" if negative else escape(text)
