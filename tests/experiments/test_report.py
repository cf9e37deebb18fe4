"""Reports: complete, repeatable, readable without a network, and safe against odd names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fakes import report as patch_report
from fakes import toy_row

from experiments.errors import MissingExtraError, ResultsError
from experiments.io.csv_text import csv_text
from experiments.report import latex, markdown, tables
from experiments.report.columns import Number
from experiments.report.report import write_report
from experiments.sweep.schema import CaseRow, columns, to_cells

ODD_NAMES = (
    "price_$usd_and_$eur",
    "a|b",
    "=cmd()",
    "../x",
    "q\"u'o\\te{s}",
    "<script>alert(1)</script>",
    "x" * 300,
    "an\x1bescape",
    "[opt] *star*",
    "日本 Größe",
    "a\rb",
    "\u202eright to left",
)


def write_folder(folder: Path, rows: list[CaseRow], **run: object) -> Path:
    """A results folder as a sweep leaves it, without running one."""
    folder.mkdir(parents=True, exist_ok=True)
    table = csv_text([columns(), *(to_cells(row) for row in rows)])
    (folder / "cases.csv").write_bytes(table.encode())
    record = {
        "status": "finished",
        "config": {"suite": "toy", "host": "mini", "target_presence": 0.999},
        "host": {"name": "mini", "sha256": "f" * 64, "built_in": True},
        "versions": {"torch": "2"},
        "patches": {name: patch_report(name) for name in ("oa", "full")},
        **run,
    }
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def cases(names: tuple[str, ...], changes: dict[str, float]) -> list[CaseRow]:
    """Stock at RMSE 100 and each variant at its change in percent, seeds 1 and 2."""
    rows = []
    for name in names:
        for seed in (1, 2):
            for variant, change in {"stock": 0.0, **changes}.items():
                rows.append(toy_row(name, seed, variant, rmse=100.0 + change))
    return rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "run", cases(("left", "right"), {"oa": 0.25, "full": -0.5}))


class Page(HTMLParser):
    """What a reader of the page would meet: texts, links out, rows of the cases table."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[dict[str, str | None]] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        known = dict(attrs)
        self.links += [known[name] or "" for name in ("src", "href") if name in known]
        if "data-dataset" in known:
            self.rows.append(known)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_report_holds_every_form_and_the_figures_of_the_cases(folder: Path) -> None:
    written = write_report(folder)
    names = {path.relative_to(folder).as_posix() for path in written.files}
    assert names == {
        "report.md",
        "report.html",
        "summary.tex",
        "figures/forest.svg",
        "figures/forest.png",
        "figures/tau.svg",
        "figures/tau.png",
    }
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    assert [(row["data-dataset"], row["data-variant"], row["data-state"]) for row in page.rows][
        :2
    ] == [("left", "oa", "loss"), ("left", "full", "win")]
    assert float(page.rows[0]["data-change"] or "nan") == pytest.approx(0.25)
    assert "+0.2500 %" in (folder / "report.md").read_text(encoding="utf-8")
    assert r"+0.2500 \%" in (folder / "summary.tex").read_text(encoding="utf-8")
    assert r"$-$0.5000 \%" in (folder / "summary.tex").read_text(encoding="utf-8")
    assert (folder / "figures/forest.png").read_bytes().startswith(b"\x89PNG")


def test_every_form_says_whose_model_it_is_and_what_is_not_claimed(folder: Path) -> None:
    write_report(folder)
    for name in ("report.md", "summary.tex", "report.html"):
        text = (folder / name).read_text(encoding="utf-8").replace("&#39;", "'")
        assert "not Prior Labs' TabPFN v3" in text, name
        assert "No universal no-loss" in text, name
    assert "not Prior Labs&apos; model" in (folder / "figures/forest.svg").read_text() or (
        "not Prior Labs' model" in (folder / "figures/forest.svg").read_text()
    )
    foreign = write_folder(
        folder,
        cases(("left",), {"oa": 0.1}),
        host={"name": "v3", "sha256": "a" * 64, "built_in": False},
    )
    write_report(foreign)
    assert "Prior Labs" not in (foreign / "report.html").read_text(encoding="utf-8")


def test_page_needs_nothing_from_outside(folder: Path) -> None:
    write_report(folder)
    html = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    assert all(link.startswith("#") for link in page.links)
    assert "@import" not in html
    assert "url(#" in html or "url(" not in html
    assert "default-src 'none'" in html
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html
    assert "var(--oa)" in html
    assert "#0072b2" not in html.split("</style>")[1]


def test_same_results_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    first = write_report(folder, tmp_path / "a")
    second = write_report(folder, tmp_path / "b")
    for one, other in zip(first.files, second.files, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    assert not (folder / "report.html").exists()
    moved = write_folder(tmp_path / "moved", cases(("left", "right"), {"oa": 0.3, "full": -0.5}))
    third = write_report(moved, tmp_path / "c")
    same = [a.name for a, b in zip(first.files, third.files, strict=True) if _equal(a, b)]
    assert same == ["tau.svg", "tau.png"]


def _equal(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()


def test_odd_names_survive_every_form(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "odd", cases(ODD_NAMES, {"oa": 0.25}))
    write_report(folder)
    html = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    shown = {row["data-dataset"] for row in page.rows}
    assert len(shown) == len(ODD_NAMES)
    assert {name for name in ODD_NAMES if name.isprintable()} <= shown
    assert page.tags.count("script") == 1
    assert "\0" not in html
    assert "\u202e" not in html
    for row in (folder / "report.md").read_text(encoding="utf-8").split("## Cases")[1].split("\n"):
        if row.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", row)) == 5, row
    for svg in (folder / "figures").glob("*.svg"):
        ElementTree.parse(svg)
    drawn = (folder / "figures/forest.svg").read_text(encoding="utf-8")
    assert "price_$usd_and_$eur" in drawn


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50 % & more_$1", r"50 \% \& more\_\$1"),
        (r"a\b{c}", r"a\textbackslash{}b\{c\}"),
        ("~^#", r"\textasciitilde{}\textasciicircum{}\#"),
        ("[x]*", "{[}x]{*}"),
        ("a|b<c>", r"a\textbar{}b\textless{}c\textgreater{}"),
        ("nul\0", "nul?"),
        ("a---b 1-2", r"a-{}-{}-b 1-2"),
        ("``x,,''", r"\textasciigrave{}\textasciigrave{}x,{},'{}'"),
    ],
)
def test_latex_prints_text_as_it_is(text: str, expected: str) -> None:
    assert latex.escape(text) == expected
    assert latex.escape("plain") == "plain"


def test_latex_rows_have_as_many_cells_as_the_header() -> None:
    table = latex.tabular(("a", "b & c"), [("x&y", Number("-1.5 %")), ("-1 *", "-")])
    rows = [line for line in table.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [1, 1, 1]
    assert r"x\&y & $-$1.5 \% \\" in rows
    assert r"-1 {*} & - \\" in rows


def test_left_out_and_failed_rows_are_shown_as_such(tmp_path: Path) -> None:
    rows = cases(("left", "right"), {"oa": 0.25})
    rows[-1] = toy_row("right", 2, "oa", rmse=float("nan"), status="failed", error="boom <b>")
    write_report(write_folder(tmp_path, rows))
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    assert [row["data-state"] for row in page.rows].count("left out") == 1
    assert "right, seed 2, oa: boom <b>" in page.text
    assert "3 of 4" in page.text


def test_presence_sweep_has_a_table_and_a_figure(tmp_path: Path) -> None:
    names = ("oa@0.9", "oa@0.999", "full@0.9")
    patches = {name: patch_report(name) for name in names}
    rows = cases(("left", "right"), {"oa@0.9": 1.0, "oa@0.999": 0.01, "full@0.9": 2.0})
    folder = write_folder(tmp_path, rows, patches=patches)
    tables.write_tables(folder, margin_pct=0.5)
    lines = (folder / "presence_sweep.csv").read_text().splitlines()
    points = [line.split(",")[:4] for line in lines[1:]]
    assert [point[:3] for point in points] == [
        ["oa", "0.9", "4"],
        ["oa", "0.999", "4"],
        ["full", "0.9", "4"],
    ]
    assert [float(point[3]) for point in points] == pytest.approx([1.0, 0.01, 2.0])
    written = write_report(folder)
    assert "presence_sweep.svg" in {path.name for path in written.files}
    assert "forest.svg" not in {path.name for path in written.files}
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "a small change is no success by itself" in text
    assert "| oa | 0.999 | +0.0100 % |" in text


def test_many_cases_share_a_row_per_data_set(tmp_path: Path) -> None:
    many = tuple(f"set{number}" for number in range(50))
    folder = write_folder(tmp_path, cases(many, {"oa": 0.25}))
    write_report(folder)
    drawn = (folder / "figures/forest.svg").read_text(encoding="utf-8")
    assert drawn.count(">set7<") == 1
    assert "set7 · 1" not in drawn


@pytest.mark.parametrize("fault", ["ImportError", "AttributeError", "OSError"])
def test_report_without_matplotlib_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str
) -> None:
    """Absent, built for another numpy, or without a library that it needs."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "matplotlib.py").write_text(f"raise {fault}('broken')\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(MissingExtraError, match=r"oretro\[plots\].*--no-figures"):
        write_report(folder)
    assert not (folder / "report.html").exists()
    written = write_report(folder, figures=False)
    assert [path.name for path in written.files] == ["report.md", "summary.tex", "report.html"]


@pytest.mark.parametrize("damage", ["{", "[]", ""])
def test_damaged_run_record_is_named(folder: Path, damage: str) -> None:
    (folder / "run.json").write_text(damage)
    with pytest.raises(ResultsError, match=r"run\.json"):
        write_report(folder)


def test_folder_without_results_or_out_that_is_a_file(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="does not exist"):
        write_report(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="cannot be written"):
        write_report(folder, tmp_path / "file")


def test_report_imports_neither_torch_nor_tabpfn(folder: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from experiments.report.report import write_report\n"
        f"write_report(Path({str(folder)!r}))\n"
        "print(sorted({'torch', 'tabpfn', 'sklearn', 'openml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_escape_of_markdown_keeps_names_on_one_line() -> None:
    assert markdown.escape("a\nb|c\0") == "a b\\|c�"


def test_an_unusual_eps_is_told(tmp_path: Path) -> None:
    from experiments.report.remarks import plain, remarks
    from experiments.report.summary import summarise_folder

    rows = cases(("left", "right"), {"oa": 0.25})
    usual = {"suite": "toy", "host": "mini", "target_presence": 0.999}
    told = []
    for extra in ({}, {"eps_den": 1e-8, "eps_mode": "absolute"}, {"eps_mode": "relative"}):
        folder = write_folder(tmp_path / str(len(told)), rows, config=usual | extra)
        lines = map(plain, remarks(summarise_folder(folder, margin_pct=0.5)))
        told.append([line for line in lines if "eps_den" in line])
    assert told == [[], [], ["eps_den was 1e-08, relative, rather than 1e-08, absolute."]]
