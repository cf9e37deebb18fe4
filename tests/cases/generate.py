"""Make ``tests/CASES.md`` from ``cases.yaml``: ``python tests/cases/generate.py [--check]``."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

TESTS = Path(__file__).parent.parent
SOURCE = TESTS / "cases" / "cases.yaml"
TARGET = TESTS / "CASES.md"
_INTRO = (
    "What users of tabular models and of OpenML ran into, and what oretro does with it. Made "
    "from `tests/cases/cases.yaml` by `python tests/cases/generate.py`; do not edit."
)
_FIELDS = {"expect", "tests", "note", "reason", "pending"}


@dataclass(frozen=True)
class Case:
    """One hard input and where its behaviour is shown."""

    name: str
    expect: str = ""
    tests: tuple[str, ...] = ()
    note: str = ""
    reason: str = ""
    pending: str = ""

    @property
    def status(self) -> str:
        if self.tests:
            return "tested"
        return "pending" if self.pending else "does not apply"


def read_cases() -> list[Case]:
    """Read the table.

    Raises:
        ValueError: an entry has an unknown field, or not exactly one of tests, reason and pending.
    """
    cases = []
    for name, entry in yaml.safe_load(SOURCE.read_text(encoding="utf-8")).items():
        unknown = set(entry) - _FIELDS
        kinds = {"tests", "reason", "pending"} & set(entry)
        if unknown or len(kinds) != 1 or ("tests" in entry and not entry.get("expect")):
            raise ValueError(f"{SOURCE.name}: {name}: fields {sorted(entry)}")
        cases.append(Case(name, **{**entry, "tests": tuple(entry.get("tests", ()))}))
    return cases


def missing_tests(cases: list[Case]) -> list[str]:
    """Nodes of the table that name no test function."""
    known: dict[Path, set[str]] = {}
    missing = []
    for node in sorted({node for case in cases for node in case.tests}):
        file, _, function = node.partition("::")
        path = TESTS / file
        if path not in known:
            tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.parse("")
            known[path] = {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}
        if not function.startswith("test_") or function not in known[path]:
            missing.append(node)
    return missing


def render(cases: list[Case]) -> str:
    """The markdown page."""
    counts = Counter(case.status for case in cases)
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    lines = [
        "# Hard inputs",
        "",
        _INTRO,
        "",
        f"{len(cases)} cases: {summary}.",
        "",
        "| case | status | behaviour | shown by |",
        "|---|---|---|---|",
    ]
    for case in cases:
        behaviour = " ".join(filter(None, (case.expect, case.note and f"({case.note})")))
        behaviour = behaviour or case.reason or case.pending
        shown = "<br>".join(f"`{node}`" for node in case.tests)
        lines.append(f"| {case.name} | {case.status} | {behaviour} | {shown} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or with ``--check`` compare it; 1 if it is not up to date."""
    cases = read_cases()
    missing = missing_tests(cases)
    for node in missing:
        print(f"no such test: {node}", file=sys.stderr)
    text = render(cases)
    if "--check" in sys.argv[1:]:
        current = TARGET.read_text(encoding="utf-8") if TARGET.is_file() else ""
        if current != text:
            print("tests/CASES.md is not up to date; run generate.py", file=sys.stderr)
            return 1
    else:
        TARGET.write_text(text, encoding="utf-8")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
