"""How a CSV is put together: its delimiter, its encoding, and headers longer than any screen."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from hard_tables import PLAIN, A, B, lines, plain

from experiments.data import Table, csv_file, load_file
from experiments.data.settings import FileSet
from experiments.errors import DataError


def read(folder: Path, content: bytes, **fields: object) -> Table:
    path = folder / "mine.csv"
    path.write_bytes(content)
    return load_file(FileSet(path=path, **{"target": "y", **fields}))


BROKEN_HEADERS = {
    "line break": '"net, size\n(m2)"',
    "windows line break": '"net, size\r\n(m2)"',
    "form feed": "net\x0csize",
    "line separator": "net\N{LINE SEPARATOR}size",
    "quotes": '"net ""size"", in; m2"',
    "empty lines before": '\n\n"net, size"',
}


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("kind", BROKEN_HEADERS)
def test_header_cell_does_not_mislead_about_the_delimiter(
    tmp_path: Path, kind: str, mark: str
) -> None:
    header = mark.join([BROKEN_HEADERS[kind], "b", "y"])
    table = read(tmp_path, lines(header, lambda number: plain(number).replace(",", mark)))
    assert table.X.shape[1] == 2
    assert table.X.columns[0].startswith("net")
    np.testing.assert_array_equal(table.X["b"], B)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose header shows another delimiter than it has, and one in another encoding."""
    monkeypatch.chdir(tmp_path)
    misleading = lines('"a;b;c;d",b,y', plain).replace(b'"', b"")
    Path("marks.csv").write_bytes(misleading)
    Path("tabs.csv").write_bytes(PLAIN.replace(b",", b"\t").replace(b"a\tb", b"a,1,2\tb"))
    Path("latin.csv").write_bytes(PLAIN.replace(b"a,b,y", b"a\xe9,b,y"))
    return tmp_path


COMMANDS = {
    "show": ("data", "show", "{}", "--json"),
    "eval": ("eval", "--data", "{}", "--seeds", "1", "--dry-run", "--json"),
    "calibrate": ("calibrate", "mini", "--table", "{}", "--dry-run", "--json"),
    "patch": ("patch", "mini", "--variant", "oa", "--table", "{}", "--dry-run", "--json"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("file", "option", "told"),
    [
        ("marks.csv", ("--delimiter", ","), "line 2 has 1 cells, the header has 4"),
        ("tabs.csv", ("--delimiter", "tab"), "line 2 has 1 cells, the header has 3"),
        ("latin.csv", ("--encoding", "cp1252"), "name the encoding, such as --encoding cp1252"),
    ],
)
def test_every_command_that_takes_a_table_is_told_how_to_read_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    files: Path,
    command: str,
    file: str,
    option: tuple[str, str],
    told: str,
) -> None:
    arguments = [part.format(file) for part in COMMANDS[command]] + ["--target", "y"]
    assert call(monkeypatch, *arguments) == 2
    assert told in capsys.readouterr().err
    assert call(monkeypatch, *arguments, *option) == 0
    assert json.loads(capsys.readouterr().out)


def test_header_of_any_length_is_read(tmp_path: Path) -> None:
    columns = 12_000
    names = [f"column-{number:05}" for number in range(columns)]
    rows = (",".join(["1.5"] * columns + [str(row)]) for row in range(2))
    content = "\n".join([",".join([*names, "y"]), *rows]).encode()
    assert len(content.splitlines()[0]) > 131_072
    table = read(tmp_path, content)
    assert table.X.shape == (2, columns)
    one = "a" * 150_000
    assert one in read(tmp_path, PLAIN.replace(b"a,b,y", f"{one},b,y".encode())).X


@pytest.mark.parametrize("fault", ["target", "cell", "word", "drop", "twice"])
def test_message_about_long_names_and_cells_stays_short(tmp_path: Path, fault: str) -> None:
    name, cell = "n" * 150_000, "w" * 150_000
    content, fields = lines(f"{name},b,y", plain).decode(), {}
    if fault == "target":
        fields = {"target": "y" * 5000}
    elif fault == "cell":
        content = content.replace(f",{2 * A[3]}\n", f",{cell}\n")
    elif fault == "word":
        content = content.replace(f"\n{A[3]},", f"\n{cell},")
    elif fault == "drop":
        fields = {"drop": ("gone",)}
    else:
        content = content.replace(",b,", f",{name},")
    with pytest.raises(DataError) as caught:
        read(tmp_path, content.encode(), **fields)
    assert len(str(caught.value)) <= 1000


@pytest.mark.parametrize(
    "encoding",
    ["hex", "zip", "undefined", "punycode", "utf-7", "unicode_escape", "a\0b", "", " "],
)
def test_encoding_that_is_none_is_a_sentence(tmp_path: Path, encoding: str) -> None:
    content = PLAIN.replace(b"a,b,y", rb"\ud800+2AA-\xe9,b,y")
    with pytest.raises(DataError, match=r"mine\.csv"):
        read(tmp_path, content, encoding=encoding)


def test_archive_that_inflates_beyond_all_measure_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_file, "_INFLATED_LIMIT", 10**6)
    small = gzip.compress(PLAIN + b"\n" * 10**5)
    assert read(tmp_path, small).sha256 == read(tmp_path, PLAIN).sha256
    with pytest.raises(DataError, match="inflates to more than"):
        read(tmp_path, gzip.compress(PLAIN + b"\n" * 10**7))


def test_delimiter_of_a_configuration_is_one_mark(tmp_path: Path) -> None:
    spelled = read(tmp_path, PLAIN.replace(b",", b"\t"), delimiter="tab")
    assert spelled.sha256 == read(tmp_path, PLAIN).sha256
    for wrong in ("ab", "", "x", "7", '"', "\n", "\0"):
        with pytest.raises(ValueError, match="delimiter"):
            FileSet(path=tmp_path / "t.csv", target="y", delimiter=wrong)


def test_first_bytes_decide_against_another_encoding(tmp_path: Path) -> None:
    accents = PLAIN.replace(b"a,b,y", "é,b,y".encode())
    marked = read(tmp_path, b"\xef\xbb\xbf" + accents, encoding="cp1252")
    assert list(marked.X) == ["é", "b"]
    assert list(read(tmp_path, accents, encoding="cp1252").X) == ["Ã©", "b"]
