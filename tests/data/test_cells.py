"""Cells of a CSV under one policy: missing as an empty cell is, refused with the word, or noted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import call
from hard_tables import lines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.data import Table, load_file
from experiments.data.settings import FileSet
from experiments.errors import DataError

ROWS = 40
SIZE = np.random.default_rng(5).normal(50, 9, ROWS).round(1)
PRICE = 3 * SIZE

_SPELLINGS = (
    "#N/A #DIV/0! #VALUE! #REF! #NAME? #NUM! #NULL! #NV <NA> \\N NaN nan -nan NaT -- - --- – NIL"
    " -1.#IND 1.#QNAN nan(ind) -nan(ind) NULL (null) [NULL] <null> None NA N/A n.a. . .. .a .z ? ??"
    " ***** ##### NA_real_ Missing"
)
MARKERS = _SPELLINGS.split()
OTHER_SIGNS = {
    "1,234,567": "marks between its digits",
    "12 345": "marks between its digits",
    "12\N{FIGURE SPACE}345": "marks between its digits",
    "12\N{ARABIC THOUSANDS SEPARATOR}345": "marks between its digits",
    "12\N{NO-BREAK SPACE}345": "marks between its digits",
    "12\N{NARROW NO-BREAK SPACE}345,5": "marks between its digits",
    "12'345": "marks between its digits",
    "12’345": "marks between its digits",
    "1_000": "marks between its digits",
    "1.234.567": "marks between its digits",
    "12,34,567": "marks between its digits",
    "45.0%": "a percent sign",
    "5 ‰": "a percent sign",
    "EUR 12.5": "a currency",
    "$12.50": "a currency",
    "-$3": "a currency",
    "12 €": "a currency",
    "R$ 7": "a currency",
    "12 kr": "a currency",
    "\N{MINUS SIGN}3.5": "a typographic minus",
    "–3.5": "a typographic minus",
    "(12)": "parentheses",
    "12-": "parentheses or a minus behind it",
    "1.5D+02": "the exponent D",
    "- 5": "a space behind its sign",
    '="12"': "a formula sign or quotes",
    "$1,234.50": "a currency and marks between its digits",
}
WORDS = ("unknown", "12 kg", "<5", "abc", "1.2.3", "2020-01-01", "1-2", "TRUE", "#12", "½")


def csv(cells: dict[int, str], column: np.ndarray = SIZE, name: str = "size") -> bytes:
    """Three columns of numbers with some cells of the first, by row, written otherwise."""

    def row(number: int) -> str:
        cell = cells.get(number, str(column[number])).replace('"', '""')
        return f'"{cell}",{SIZE[-1 - number]},{PRICE[number]}'

    return lines(f"{name},age,price", row, ROWS)


def read(folder: Path, content: bytes, **fields: object) -> Table:
    path = folder / "mine.csv"
    path.write_bytes(content)
    return load_file(FileSet(path=path, **{"target": "price", **fields}))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    places=st.dictionaries(st.integers(0, ROWS - 1), st.sampled_from(MARKERS), min_size=1),
    case=st.sampled_from([str, str.lower, str.upper]),
    pad=st.sampled_from(["", " ", "\t", "\N{NO-BREAK SPACE}"]),
)
def test_marker_in_any_place_is_an_empty_cell(tmp_path: Path, places, case, pad) -> None:
    table = read(tmp_path, csv({row: pad + case(text) + pad for row, text in places.items()}))
    assert table.sha256 == read(tmp_path, csv(dict.fromkeys(places, ""))).sha256
    assert table.X["size"].isna().to_numpy().nonzero()[0].tolist() == sorted(places)
    (note,) = (note for note in table.notes if "read as missing" in note)
    assert f"{len(places)} cell(s)" in note
    assert case(next(iter(places.values()))).strip() in note or "..." in note
    assert table.sha256 != read(tmp_path, csv({})).sha256


@pytest.mark.parametrize("marker", MARKERS)
def test_marker_in_the_target_leaves_the_row_out(tmp_path: Path, marker: str) -> None:
    content = csv({3: marker}, name="price").replace(b"price,age,price", b"price,age,x")
    table = read(tmp_path, content)
    assert table.dropped_rows == 1
    assert "1 row(s) without a target value left out" in table.notes


def test_column_of_markers_alone_is_an_empty_column(tmp_path: Path) -> None:
    table = read(tmp_path, csv({row: "NULL" if row % 2 else "?" for row in range(ROWS)}))
    assert table.sha256 == read(tmp_path, csv(dict.fromkeys(range(ROWS), ""))).sha256
    assert "no value at all in: size" in table.notes


@pytest.mark.parametrize("cell", OTHER_SIGNS)
@pytest.mark.parametrize("share", [2, ROWS], ids=["few", "all"])
@pytest.mark.parametrize("column", ["size", "price"])
def test_number_with_other_signs_is_refused_with_the_cell(
    tmp_path: Path, cell: str, share: int, column: str
) -> None:
    cells = dict.fromkeys(range(ROWS - share, ROWS), cell)
    content = csv(cells, name=column).replace(b"price,age,price", b"price,age,x")
    with pytest.raises(DataError, match=f"column '{column}'") as caught:
        read(tmp_path, content)
    told = str(caught.value)
    assert f"'{cell}'" in told
    assert f"row {ROWS - share}" in told
    assert OTHER_SIGNS[cell] in told or column == "price"


@pytest.mark.parametrize(("cell", "decimal"), [("7,751", "."), ("7,5", "."), ("7.5", ",")])
def test_other_decimal_mark_is_refused_with_both_readings(
    tmp_path: Path, cell: str, decimal: str
) -> None:
    content = csv(dict.fromkeys(range(2), cell)).decode()
    if decimal == ",":
        content = content.replace(",", ";").replace(".", ",").replace('"7,5"', '"7.5"')
    with pytest.raises(DataError, match=f"holds '{cell}': if that is a decimal") as caught:
        read(tmp_path, content.encode(), decimal=decimal)
    assert "if it separates thousands, remove it" in str(caught.value)


@pytest.mark.parametrize("word", WORDS)
def test_word_among_numbers_is_refused_unless_it_is_asked_for(tmp_path: Path, word: str) -> None:
    content = csv({7: word, 20: "NA"})
    with pytest.raises(DataError, match="column 'size': row 7 holds") as caught:
        read(tmp_path, content)
    assert f"'{word}'" in str(caught.value)
    assert "--words COLUMN" in str(caught.value)
    table = read(tmp_path, content, words=("size",))
    assert table.X["size"][7] == word
    assert table.X["size"][20] == "NA"
    assert "size" not in read(tmp_path, content, drop=("size",)).X


def test_numbers_taken_as_words_are_the_same_words_from_parquet(tmp_path: Path) -> None:
    codes = np.arange(ROWS) % 7
    content = csv({row: str(code) for row, code in enumerate(codes)})
    table = read(tmp_path, content, words=("size",))
    assert table.categorical == ("size",)
    frame = pd.DataFrame({"size": codes, "age": SIZE[::-1], "price": PRICE})
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    twin = load_file(FileSet(path=path, target="price", words=("size",)))
    assert twin.sha256 == table.sha256
    assert load_file(FileSet(path=path, target="price")).categorical == ()
    for asked, told in (("y", "no column 'y' to take as words"), ("price", "is the target")):
        with pytest.raises(DataError, match=told):
            load_file(FileSet(path=path, target="price", words=(asked,)))


def test_column_of_words_keeps_its_few_numbers_and_names_the_words(tmp_path: Path) -> None:
    cells = {row: ["high", "low", "NA"][row % 3] for row in range(ROWS - 8)}
    table = read(tmp_path, csv(cells))
    assert table.categorical == ("size",)
    told = "; ".join(table.notes)
    assert "column 'size' mixes words and numbers: read as text; words are 'high', 'low'" in told
    assert "column 'size': 'NA' kept as a word, not as missing" in told


@pytest.mark.parametrize(
    "form", ["{} kg", "£{}k", "[{}]", "{}†", "±{}", "1·{}", "1٫{}", "<{}", "{}°", "{}.5 pct"]
)
def test_amounts_with_units_or_signs_are_words_with_a_note(tmp_path: Path, form: str) -> None:
    table = read(tmp_path, csv({row: form.format(row % 5) for row in range(ROWS)}))
    assert table.categorical == ("size",)
    assert f"column 'size' holds amounts such as '{form.format(0)}'" in "; ".join(table.notes)


@pytest.mark.parametrize("form", ["house {}", "B{}", "a-{}", "1/{}", "00:0{}x"])
def test_names_with_numbers_are_words_without_a_note(tmp_path: Path, form: str) -> None:
    assert read(tmp_path, csv({row: form.format(row % 5) for row in range(ROWS)})).notes == ()


@pytest.mark.parametrize("missing", ["NA", "<NA>", "NULL", ""])
def test_logical_column_of_r_is_the_one_of_parquet(tmp_path: Path, missing: str) -> None:
    truth = [[True, False, None][row % 3] for row in range(ROWS)]
    spelled = {True: "TRUE", False: "FALSE", None: missing}
    table = read(tmp_path, csv({row: spelled[value] for row, value in enumerate(truth)}))
    frame = pd.DataFrame({"size": truth, "age": SIZE[::-1], "price": PRICE})
    frame.to_parquet(tmp_path / "t.parquet")
    assert table.sha256 == load_file(FileSet(path=tmp_path / "t.parquet", target="price")).sha256
    assert table.X["size"][:2].tolist() == [1.0, 0.0]
    assert any("read as missing" in note for note in table.notes) == bool(missing)


DATES = (
    "2024-03-10",
    "2024/3/10",
    "10.03.2024",
    "3/14/24",
    "10-Mar-2024",
    "10 March 2024",
    "Mar 10, 2024",
    "2024-03-10T09:30:00Z",
    "2024-03-10 09:30",
    "2024-03-10 09:30:00+00:00[UTC]",
    "20240310T093000",
    "10/Mar/2024:13:55:36",
    "Sun, 10 Mar 2024",
    "Sun Mar 10 09:30:00 2024",
    "2024年3月10日",
    "2024-03",
    "March 2024",
    "Jan-24",
    "2024Q1",
    "2024-W10",
    "09:30",
)


@pytest.mark.parametrize("date", DATES)
@pytest.mark.parametrize("rest", ["", "NA", "unknown"])
def test_dates_are_refused_whatever_stands_between(tmp_path: Path, date: str, rest: str) -> None:
    cells = {row: date if row % 4 else rest for row in range(ROWS)}
    with pytest.raises(DataError, match="column 'size' holds dates such as") as caught:
        read(tmp_path, csv(cells))
    assert f"'{date}'" in str(caught.value)


@pytest.mark.parametrize("word", ["1.2.3", "10-20", "3 of 4", "2024-25", "Mark 12", "Q5"])
def test_words_that_are_no_dates_stay_words(tmp_path: Path, word: str) -> None:
    cells = {row: f"{word}" if row % 2 else "other" for row in range(ROWS)}
    assert read(tmp_path, csv(cells)).categorical == ("size",)


def test_text_of_parquet_that_is_numbers_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    texts = [str(value) for value in SIZE[:-1]]
    for last, told in (
        ("7", "the file says that they are text"),
        ("#N/A", "'#N/A' kept as a word"),
    ):
        pd.DataFrame({"size": [*texts, last], "price": PRICE}).to_parquet(path)
        table = load_file(FileSet(path=path, target="price"))
        assert told in "; ".join(table.notes)
        assert table.categorical == ("size",)


def test_show_prints_every_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    rows = (f"u{n},{'NULL' if n == 4 else SIZE[n]},{'' if n == 9 else PRICE[n]}" for n in range(20))
    path.write_text("\n".join(["id,size,price", *rows]) + "\n")
    assert call(monkeypatch, "data", "show", str(path), "--target", "price") == 0
    shown = capsys.readouterr().out
    for told in (
        "note: column 'size': 1 cell(s) 'NULL' read as missing",
        "note: 1 row(s) without a target value left out",
        "note: column 'id' holds another text in every row: if it is an identifier, drop it",
    ):
        assert told in shown
    assert shown.count("note: ") == 3
