"""The table of hard inputs is complete, up to date, and names tests that exist."""

from __future__ import annotations

import dataclasses
import re

from generate import TARGET, missing_tests, read_cases, render

AREAS = {"T": 35, "O": 13, "P": 22, "A": 9, "H": 14}
NEW = {f"N{n:02}" for n in (1, 2, 3, 4, 5, 8, 10, 11, 14, 15, 17, 18, 21, 23)}
"""The second collection, of which only what failed at first is listed."""


def test_every_case_is_listed_once() -> None:
    names = [case.name for case in read_cases()]
    assert len(names) == len(set(names))
    assert {name for name in names if name[0] == "N"} <= NEW
    assert sum(AREAS.values()) == 93
    assert {area: sum(name[0] == area for name in names) for area in AREAS} == AREAS
    assert all(re.fullmatch(r"[TOPAHN]\d\d", name) for name in names)


def test_page_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == render(read_cases())


def test_every_named_test_exists() -> None:
    cases = read_cases()
    assert missing_tests(cases) == []
    wrong = dataclasses.replace(
        cases[0], tests=("data/test_files.py::test_nothing", "no.py::test_x")
    )
    assert missing_tests([wrong]) == ["data/test_files.py::test_nothing", "no.py::test_x"]


def test_only_the_harness_may_be_pending() -> None:
    assert {case.name[0] for case in read_cases() if case.status == "pending"} <= {"H"}
