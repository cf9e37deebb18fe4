"""Every study leaves its results by one writer, with one record, timed by one clock."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.errors import ResultsError
from experiments.machine import provenance
from experiments.report import latex
from experiments.report.columns import Column, Number, interval, percent, show, size
from experiments.report.plot_style import Picture
from experiments.report.remarks import notice, plain
from experiments.studies.bench import timer
from experiments.studies.bench.timer import interleaved, quartiles
from experiments.studies.writer import write_study

STUDIES = Path(__file__).parent.parent.parent / "experiments" / "studies"


def test_a_study_is_its_tables_page_figures_and_record(tmp_path: Path) -> None:
    table = pd.DataFrame({"name": ["a"], "value": [1 / 3]})
    record = provenance.record(["oretro", "x"], device="cpu")
    figure = Picture("drawn", "A figure", "<svg/>", b"\x89PNG")
    written = write_study(tmp_path, "x", {"t": table}, "# X\n", record, pictures=[figure])
    names = {path.name for path in written}
    assert names == {"t.csv", "x.md", "x.json", "drawn.svg", "drawn.png"}
    assert (tmp_path / "t.csv").read_bytes() == b"name,value\na,0.333333\n"
    read = json.loads((tmp_path / "x.json").read_text())
    assert list(read) == [
        *("schema", "command", "device"),
        *("code", "versions", "machine", "finished"),
    ]
    write_study(tmp_path, "x", {"t": table}, "# X\n", record, digits=None)
    assert f"a,{1 / 3!r}\n" in (tmp_path / "t.csv").read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="choose another --out"):
        write_study(tmp_path / "file", "x", {}, "", record)


def test_no_study_writes_a_file_or_a_record_of_its_own() -> None:
    own = {"json", "experiments.io.writable", "retrofit.files.atomic"}
    guilty = {}
    for path in STUDIES.rglob("*.py"):
        imports = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
        ]
        names = {str(node.module) for node in imports}
        text = path.read_text(encoding="utf-8")
        found = (names & own) | {w for w in ("to_csv", "git_state", "perf_counter") if w in text}
        if found:
            guilty[path.relative_to(STUDIES).as_posix()] = found
    assert guilty == {
        "writer.py": {"experiments.io.writable", "to_csv"},
        "bench/timer.py": {"perf_counter"},
    }


def test_rounds_begin_with_another_each_time_and_the_first_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []
    clock = [0.0]

    def takes(name: str, seconds: float) -> None:
        ran.append(name)
        # The first round is slow, as a first call is.
        clock[0] += seconds * (10 if len(ran) <= 2 else 1)

    monkeypatch.setattr(timer.time, "perf_counter", lambda: clock[0])
    work = {"a": lambda: takes("a", 1.0), "b": lambda: takes("b", 4.0)}
    seconds = interleaved(work, 3)
    assert ran == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert seconds["a"].tolist() == [1.0] * 3
    assert seconds["b"].tolist() == [4.0] * 3
    assert quartiles(seconds["b"], seconds["a"]) == (4.0, 4.0, 4.0)


def test_a_ratio_is_taken_within_its_round() -> None:
    # The machine slows down by ten in the second round: the ratio is 2 in each all the same.
    fast = np.array([1.0, 10.0, 1.0])
    assert quartiles(2 * fast, fast) == (2.0, 2.0, 2.0)
    low, middle, high = quartiles(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.ones(5))
    assert (low, middle, high) == (2.0, 3.0, 4.0)


def test_figures_and_names_stay_apart_in_every_cell() -> None:
    columns: list[Column[dict[str, object]]] = [
        Column("name", "data set"),
        Column("change", "change", percent),
        Column("range", "interval", interval),
        Column("gone", "none", size),
    ]
    rows = [{"name": "-1 street", "change": -2e-4, "range": (-2.0, -1.0), "gone": None}]
    header, ((name, change, ends, gone),) = show(columns, rows)
    assert header == ("data set", "change", "interval", "none")
    assert (name, change, ends, gone) == (
        *("-1 street", "-2.0e-04 %", "-2.0000 % to -1.0000 %"),
        "–",
    )
    assert [isinstance(cell, Number) for cell in (name, change, ends, gone)] == [False, *[True] * 3]
    line = latex.tabular(header, [(name, change, ends, gone)]).splitlines()[4]
    assert line == (r"-1 street & $-$2.0e-04 \% & $-$2.0000 \% to $-$1.0000 \% & \textendash{} \\")


def test_a_notice_names_the_host_and_whose_architecture_it_has() -> None:
    assert plain(notice("mini")).startswith("The host mini is a small model of the TabPFN v3 ")
    assert "not Prior Labs' TabPFN v3" in plain(notice("mini"))
    foreign = plain(notice("runs/host.safetensors"))
    assert "v3" not in foreign
    assert "not Prior Labs' TabPFN," in foreign
