"""Small files that people really have: well formed, ill formed, and not tables at all."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import numpy as np

ROWS = 20
_RNG = np.random.default_rng(42)
A = _RNG.normal(size=ROWS).round(4)
B = _RNG.normal(size=ROWS).round(4)


def lines(header: str, row: Callable[[int], str], rows: int = ROWS, end: str = "\n") -> bytes:
    return (end.join([header, *[row(number) for number in range(rows)]]) + end).encode()


def plain(number: int) -> str:
    return f"{A[number]},{B[number]},{2 * A[number]}"


PLAIN = lines("a,b,y", plain)
_MISSING_TARGET = PLAIN.replace(f",{2 * A[3]}\n".encode(), b",\n")

GOOD: dict[str, bytes] = {
    "plain": PLAIN,
    "byte order mark": b"\xef\xbb\xbf" + PLAIN,
    "utf-32": PLAIN.decode().encode("utf-32"),
    "two byte order marks": b"\xef\xbb\xbf" * 2 + PLAIN,
    "utf-16": PLAIN.decode().encode("utf-16"),
    "windows line ends": PLAIN.replace(b"\n", b"\r\n"),
    "no last line end": PLAIN[:-1],
    "empty lines": PLAIN.replace(b"\n", b"\n\n"),
    "spaces in names": PLAIN.replace(b"a,b,y", b" a , b ,y "),
    "gzip named csv": gzip.compress(PLAIN, mtime=0),
    "semicolons": PLAIN.replace(b",", b";"),
    "tabs": PLAIN.replace(b",", b"\t"),
    "row numbers": lines(",a,b,y", lambda n: f"{n},{plain(n)}"),
    "row numbers from one": lines(",a,b,y", lambda n: f"{n + 1},{plain(n)}"),
    "quoted": lines('"a","b","y"', lambda n: ",".join(f'"{cell}"' for cell in plain(n).split(","))),
}
"""All of them are the plain table."""

NOTED: dict[str, tuple[bytes, str]] = {
    "empty column": (
        lines("a,b,e,y", lambda n: f"{A[n]},{B[n]},,{2 * A[n]}"),
        "no value at all in: e",
    ),
    "truth values with gaps": (
        lines("flag,b,y", lambda n: f"{['True', 'False', ''][n % 3]},{B[n]},{2 * A[n]}"),
        "",
    ),
    "repeated rows": (lines("a,b,y", lambda n: f"1,2,{n % 3}"), "19 of 20 rows repeat"),
    "identifiers": (
        lines("id,b,y", lambda n: f"u{n:05},{B[n]},{2 * A[n]}"),
        "column 'id' holds another text in every row",
    ),
    "words and numbers": (
        lines("m,b,y", lambda n: f"{'high' if n % 2 else A[n]},{B[n]},{2 * A[n]}"),
        "column 'm' mixes words and numbers: read as text",
    ),
    "formula in a name": (PLAIN.replace(b"a,b,y", b"=cmd,b,y"), ""),
    "bar and comma in a name": (PLAIN.replace(b"a,b,y", b'a|b,"b, c",y'), ""),
    "a country called NA": (
        lines("land,b,y", lambda n: f"{['NA', 'FR', 'DE'][n % 3]},{B[n]},{2 * A[n]}"),
        "column 'land': 'NA' kept as a word, not as missing",
    ),
    "a number called NA": (
        lines("a,b,y", lambda n: f"{'NA' if n == 4 else A[n]},{B[n]},{2 * A[n]}"),
        "column 'a': 1 cell(s) 'NA' read as missing",
    ),
    "missing target": (_MISSING_TARGET, "1 row(s) without a target value left out"),
    "600 columns": (
        lines(
            ",".join([*[f"f{i}" for i in range(600)], "y"]),
            lambda n: f"{n}," + "1," * 599 + str(n),
            8,
        ),
        "column 'f0' counts the rows, in some order: if it is an identifier, drop it",
    ),
    "constant target": (lines("a,b,y", lambda n: f"{A[n]},{B[n]},5"), ""),
    "huge target": (
        lines("a,b,y", lambda n: f"{A[n]},{B[n]},{A[n]}e200"),
        "target range: 'y' reaches",
    ),
}

BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "white space": (b" \n\n", "is empty"),
    "header only": (b"a,b,y\n", "has a header and no row"),
    "web page": (b"<!DOCTYPE html><html>404</html>\n", "is a web page"),
    "no header": (lines(plain(0), plain), "first line holds numbers alone"),
    "too many cells": (
        PLAIN.replace(f",{2 * A[5]}".encode(), b",1,9"),
        "line 7 has 4 cells, the h",
    ),
    "too few cells": (PLAIN + b"1.5,2.5\n", "line 22 has 2 cells, the header has 3"),
    "unclosed quote": (PLAIN + b'"1.5,2.5,3\n4,5,6\n', "line 22: a quote that is opened there is"),
    "torn tail": (PLAIN + b"0.5,1.", "line 22 has 2 cells, the header has 3"),
    "NUL tail": (PLAIN + b"\0" * 64, "line 22 holds NUL bytes"),
    "two headers": (PLAIN + PLAIN, "row 22 repeats the header"),
    "decimal commas": (
        lines("a;b;y", lambda n: plain(n).replace(",", ";").replace(".", ",")),
        "column 'a' holds '[-0-9,]+': if that is a decimal comma",
    ),
    "decimal commas between commas": (
        lines("a,b,y", lambda n: plain(n).replace(".", ",")),
        "line 2 has 6 cells, the header has 3; are there decimal commas",
    ),
    "thousands": (
        lines("a,b,y", lambda n: f'"1,{n:03}",{B[n]},{2 * A[n]}'),
        "if it separates thousands, remove it",
    ),
    "dates": (
        lines("d,b,y", lambda n: f"2020-02-{n + 1:02},{B[n]},{2 * A[n]}"),
        "column 'd' holds dates such as '2020-02-01'; drop it",
    ),
    "infinite feature": (
        lines("a,b,y", lambda n: f"{'inf' if n == 5 else A[n]},{B[n]},{2 * A[n]}"),
        "column 'a' holds 1 infinite value",
    ),
    "infinite by size": (
        lines("a,b,y", lambda n: f"{'1e400' if n == 5 else A[n]},{B[n]},{2 * A[n]}"),
        "column 'a' holds 1 infinite value",
    ),
    "infinite target": (
        lines("a,b,y", lambda n: f"{A[n]},{B[n]},{'inf' if n == 3 else 'nan' if n else '1'}"),
        "column 'y' holds 1 infinite value",
    ),
    "money in the target": (
        lines("a,b,y", lambda n: f'{A[n]},{B[n]},"$1,{n:03}"'),
        r"target column 'y': row 0 holds '\$1,000', which is not a number",
    ),
    "words in the target": (
        lines("a,b,y", lambda n: f"{A[n]},{B[n]},{'low' if n == 7 else n}"),
        "target column 'y': row 7 holds 'low', which is not a number",
    ),
    "no target": (
        PLAIN.replace(b"a,b,y", b"a,b,Y"),
        "has no column 'y'; did you mean|has no column",
    ),
    "one name twice": (PLAIN.replace(b"a,b,y", b"a, a,y"), "more than one column is named a"),
    "a column without a name": (PLAIN.replace(b"a,b,y", b"a,,y"), "column 2 has no name"),
    "an unnamed first column that does not count": (
        lines(",b,y", plain),
        "column 1 has no name",
    ),
    "latin-1": (
        PLAIN.replace(b"a,b,y", b"a\xe9,b,y"),
        "line 1 holds byte 0xe9, which is not utf-8",
    ),
    "spreadsheet": (b"PK\x03\x04" + b"\0" * 40, "is a zip archive or a spreadsheet"),
    "damaged gzip": (gzip.compress(PLAIN, mtime=0)[:-20], "a damaged gzip archive"),
    "damaged parquet": (b"PAR1" + b"\0" * 40, "not a whole parquet file"),
}
