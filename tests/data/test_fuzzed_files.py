"""Five hundred files made of odd pieces: each a table or one short sentence, never a traceback."""

from __future__ import annotations

import datetime
import decimal
import gzip
import random
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.data import load_file
from experiments.data.settings import FileSet
from experiments.errors import DataError

_CELLS = """
1 2.5 -3 1e5 1e-400 1e400 inf -inf nan NA #N/A <NA> \\N ? -- . TRUE false T yes 0x1F 1_000 ½ ٣
1,5 7,751 1,234,567 1.234,56 12'345 45% $3 €5 EUR −3 (12) 12- 1.5D+02 2024-01-10 3/14/24
10-Mar-2024 09:30 12kg <5 abc x,y a;b =1+1 'q 1152921504606846977 999999999999999999999 e e5
+ - % # ( ) [] {} <> 1.#IND -1.#QNAN nan( .a ... 99:99 1.2.3 1-2 ,1 1, É 大
"""
_SPACES = ["", " ", "\t", "\N{NO-BREAK SPACE}", "\n", "\r\n", "\0", "\x1c", "\u2028"]
CELLS = [*_CELLS.split(), *_SPACES, '"', '""', "a" * 3000]
NAMES = ["a", "b", "price", "", " ", "id", "index", "Unnamed: 0", "a", "1", "é", "p\nq", "n" * 2000]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "latin-1", "utf-7"]


def odd_file(rng: random.Random) -> tuple[bytes, str]:
    """A table of a few columns, damaged in up to three ways, and the encoding it was written in."""
    mark = rng.choice([",", ",", ",", ";", "\t", "|", " "])
    end = rng.choice(["\n", "\n", "\r\n", "\r"])
    columns, rows = rng.choice([1, 2, 3, 3, 4, 5]), rng.choice([0, *range(1, 13)])
    names = [*rng.sample(["a", "b", "c", "d"], columns - 1), "y"]
    table = [[f"{rng.gauss(0, 9):.3f}" for _ in names] for _ in range(rows)]
    for _ in range(rng.choice([0, 0, 0, 1, 3])):
        if table:
            rng.choice(table)[rng.randrange(columns)] = rng.choice(CELLS)
    if rows and rng.random() < 0.2:
        column = rng.randrange(columns)
        pool = rng.choices(CELLS, k=rng.randint(1, 2))
        for row in table:
            row[column] = rng.choice(pool)
    if rng.random() < 0.2:
        names[rng.randrange(columns)] = rng.choice(NAMES)
    quoted = rng.random() < 0.5
    lines = [[f'"{cell}"' if quoted else cell for cell in row] for row in [names, *table]]
    text = end.join(mark.join(row) for row in lines) + end
    encoding = rng.choice(ENCODINGS)
    content = text.encode(encoding, "replace")
    for _ in range(rng.choice([0, 0, 0, 1, 3])):
        content = damaged(content, rng)
    return content, encoding


def damaged(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    ways = [
        lambda: content[:place],
        lambda: content[:place] + rng.randbytes(rng.randint(1, 6)) + content[place:],
        lambda: content[:place] + content[place : place + 20] * 2 + content[place:],
        lambda: gzip.compress(content),
        lambda: content + content,
        lambda: rng.choice([b"PAR1", b"PK\3\4", b"\x1f\x8b", b"\xff\xfe", b"<html>"]) + content,
    ]
    return rng.choice(ways)()


@pytest.mark.parametrize("part", range(5))
def test_odd_file_is_a_table_or_a_sentence(tmp_path: Path, part: int) -> None:
    rng = random.Random(f"odd files {part}")
    loaded, told = 0, set()
    for number in range(100):
        path = tmp_path / f"{number}.csv"
        content, encoding = odd_file(rng)
        path.write_bytes(content)
        entry = FileSet(
            path=path,
            target="y",
            delimiter=rng.choice([None, None, None, None, None, ",", "tab", " "]),
            decimal=rng.choice([".", ".", ".", ","]),
            encoding=rng.choice([encoding, encoding, encoding, "utf-8", rng.choice(ENCODINGS)]),
        )
        try:
            table = load_file(entry)
        except DataError as error:
            message = str(error)
            assert len(message) <= 900
            assert "\n" not in message
            assert not {unicodedata.category(mark) for mark in message} & {"Cc", "Cs"}
            told.add(message.replace(str(path), "")[:25])
        else:
            loaded += 1
            assert np.isfinite(table.y).all()
            assert len(table.y) == len(table.X) > 0
            assert all(len(note) < 2000 for note in table.notes)
            assert load_file(entry).sha256 == table.sha256
    # Files that all fail alike, or none of which does, would show nothing.
    assert loaded >= 5
    assert len(told) >= 10


def odd_columns() -> dict[str, pa.Array]:
    """One column of every type that parquet has and a table cannot always use."""
    return {
        "struct": pa.array([{"a": 1}] * 12),
        "list": pa.array([None, [1]] * 6),
        "map": pa.array([[("k", 1)]] * 12, type=pa.map_(pa.string(), pa.int64())),
        "bytes": pa.array([b"\xff"] * 12),
        "decimal": pa.array([decimal.Decimal("1.5")] * 12),
        "long decimal": pa.array([decimal.Decimal("1" * 50)] * 12, type=pa.decimal256(60, 0)),
        "time": pa.array([datetime.time(1, 2)] * 12),
        "date": pa.array([datetime.date(1, 1, 1)] * 12),
        "duration": pa.array([datetime.timedelta(1)] * 12),
        "stamp": pa.array([0] * 12, type=pa.timestamp("ns")),
        "codes": pa.array([1, 2] * 6).dictionary_encode(),
        "null": pa.nulls(12),
        "half": pa.array(np.arange(12, dtype=np.float16)),
        "unsigned": pa.array(np.arange(12, dtype=np.uint64) + 2**63),
        "large text": pa.array(["x"] * 12, type=pa.large_string()),
    }


@pytest.mark.parametrize("kind", odd_columns())
@pytest.mark.parametrize("use", ["feature", "target", "words"])
def test_column_of_any_type_is_used_or_a_sentence(tmp_path: Path, kind: str, use: str) -> None:
    path = tmp_path / "t.parquet"
    y = pa.array(np.random.default_rng(0).normal(size=12))
    pq.write_table(pa.table({"odd": odd_columns()[kind], "x": y, "y": y}), path)
    fields = {"feature": {}, "target": {"target": "odd"}, "words": {"words": ("odd",)}}[use]
    told = ""
    try:
        table = load_file(FileSet(path=path, **{"target": "y", **fields}))
    except DataError as error:
        told = str(error)
    assert "'odd'" in told or len(table.y) == len(table.X) > 0


def test_damaged_parquet_is_a_table_or_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    y = pa.array(np.random.default_rng(0).normal(size=12))
    words = pa.array(["a", "bcd"] * 6)
    columns = {"x": y, "w": words, "c": words.dictionary_encode(), "y": y}
    pq.write_table(pa.table(columns), path, compression="none")
    whole = path.read_bytes()
    rng = random.Random("damaged parquet")
    told = []
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(rng.choice([1, 1, 3, 10])):
            content[rng.randrange(4, len(content))] = rng.randrange(256)
        path.write_bytes(content[: rng.choice([len(whole), rng.randrange(4, len(whole))])])
        try:
            load_file(FileSet(path=path, target="y"))
        except DataError as error:
            told.append(str(error))
    assert 50 < len(told) < 300
    assert all("\n" not in text and len(text) <= 900 for text in told)
