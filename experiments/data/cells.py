"""What one cell of a text table says: a number, a missing one, a date, or a number in disguise.

The words and signs that are known stand here, and for readers in ``docs/bring-your-own.md``.
"""

from __future__ import annotations

import re
import unicodedata

OTHER_MARK = "another decimal mark"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
_COMMA_NUMBER = re.compile(r"[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)

_WORDS = (
    "na n/a n.a. nan nat null nil none missing \\n na_integer_ na_real_ na_character_"
    " #n/a #na #nv #div/0 #value #ref #name #num #null #spill #calc #error #getting_data"
)
_MISSING = frozenset(_WORDS.split())
"""Words for a missing number, in lower case, without brackets, sign, and last mark."""
_FILLER = re.compile(r"[-–—\N{MINUS SIGN}]+|\.+|…|\?+|\*+|#+")
"""Dashes, points, question marks; what Fortran and a narrow spreadsheet column print instead."""
_STATA = re.compile(r"\.[a-z_]")
_MSVC = re.compile(r"1\.#(ind|qnan|snan)\d*|nan\(.*\)")
_BRACKETED = re.compile(r"<(.*)>|\((.*)\)|\[(.*)\]|\{(.*)\}", re.DOTALL)

_MONTH = r"(jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[^\W\d_]*\.?"
_YEAR = r"(\d{4}|\d{2})"
_CLOCK = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?(\s*[ap]\.?m\.?)?"
_WEEKDAY = r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+"
_DAY = (
    rf"\d{{4}}([-/.])\d{{1,2}}\2\d{{1,2}}|\d{{1,2}}([-/.])\d{{1,2}}\3{_YEAR}"
    rf"|\d{{1,2}}[-/. ]+{_MONTH}[-/., ]+{_YEAR}"
    rf"|{_MONTH}[-/. ]*\d{{1,2}}(st|nd|rd|th)?[-/., ]+{_YEAR}"
    rf"|{_MONTH}\s+\d{{1,2}}\s+{_CLOCK}(\s+[a-z]+)?\s+\d{{4}}"
    r"|\d{4}\s?年\s?\d{1,2}\s?月(\s?\d{1,2}\s?日)?"
)
_PERIOD = (
    rf"{_MONTH}[-/., ]*\d{{4}}|(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[-']+\d{{2}}"
    r"|(19|20)\d{2}([-/](0[1-9]|1[0-2])|[-/ ]?(q[1-4]|w\d{1,2}))|q[1-4][-/ ]+(19|20)\d{2}"
)
"""A month, a quarter or a week of a year."""
_DATE = re.compile(
    rf"(?:{_WEEKDAY})?({_DAY})([t :,]+{_CLOCK}(\s*(z|utc|gmt|[+-]\d{{2}}:?\d{{2}}))?(\[.*\])?)?"
    rf"|{_CLOCK}"
    rf"|\d{{8}}t\d{{4,6}}([.,]\d+)?(z|[+-]\d{{2}}:?\d{{2}})?|{_PERIOD}",
    re.IGNORECASE,
)
_ONLY_CLOCK = re.compile(_CLOCK, re.IGNORECASE)

_MINUS = re.compile("[\N{MINUS SIGN}–—\N{SMALL HYPHEN-MINUS}\N{FULLWIDTH HYPHEN-MINUS}]")
_CURRENCIES = (
    "USD|EUR|GBP|JPY|CHF|CNY|RMB|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RUB|TRY|BRL|MXN|ZAR|KRW"
    "|SGD|HKD|THB|IDR|MYR|PHP|VND|ILS|AED|SAR|UAH|RON|BGN|kr|zł|Kč|Ft|Rs|Fr"
)
_GROUPED = re.compile(
    r"([+-]?)([1-9]\d{0,2})([\s,.'’_\N{ARABIC THOUSANDS SEPARATOR}])"
    r"((?:\d{2,3}\3)*\d{3})(?:(?!\3)[.,](\d*))?"
)
_AMOUNT = re.compile(r"[^\w/:]*\d([^\w/:-]?\d)*[^\w/:-]*([^\W\d_]{1,5}[²³]?)?[^\w/:]*")


def is_number(cell: str, decimal: str) -> bool:
    """Whether the whole cell is one number."""
    pattern = _NUMBER if decimal == "." else _COMMA_NUMBER
    return pattern.fullmatch(cell.strip()) is not None


def is_missing(cell: str) -> bool:
    """Whether the cell, in a column of numbers, says that there is none."""
    word = cell.strip().lower()
    if bracketed := _BRACKETED.fullmatch(word):
        word = next(part for part in bracketed.groups() if part is not None).strip()
    if _FILLER.fullmatch(word) or _STATA.fullmatch(word):
        return True
    word = word.lstrip("+-")
    return bool(_MSVC.fullmatch(word)) or word in _MISSING or word.rstrip("!?") in _MISSING


def is_date(cell: str) -> bool:
    """Whether the cell is a day, or a time of day."""
    return _DATE.fullmatch(cell) is not None


def is_clock(cell: str) -> bool:
    """Whether the cell is a time of day without a day."""
    return _ONLY_CLOCK.fullmatch(cell) is not None


def is_amount(cell: str) -> bool:
    """Whether the cell is a number with a unit behind it, or with any signs around it."""
    return _AMOUNT.fullmatch(cell) is not None


def disguise(cell: str, decimal: str) -> str:
    """The sign that keeps a cell from being a number, such as ``a percent sign``; or empty."""
    if not any(mark.isdigit() for mark in cell):
        return ""
    plain, signs = cell, []
    for sign, change in (
        ("a formula sign or quotes", _unquoted),
        ("parentheses or a minus behind it", _negative),
        ("a currency", _without_currency),
        ("a percent sign", lambda text: re.sub(r"\s*[%‰]$", "", text)),
        ("a typographic minus", lambda text: _MINUS.sub("-", text)),
        ("a space behind its sign", lambda text: re.sub(r"^([+-])\s+(?=\S)", r"\1", text)),
        ("the exponent D", lambda text: re.sub(r"(?<=[\d.])[dD](?=[+-]?\d{2})", "e", text)),
        ("marks between its digits", lambda text: _ungrouped(text, decimal)),
        (OTHER_MARK, lambda text: _other_mark(text, decimal)),
    ):
        changed = change(plain)
        if changed != plain:
            plain = changed
            signs.append(sign)
    return " and ".join(signs) if signs and is_number(plain, decimal) else ""


def _unquoted(text: str) -> str:
    return re.sub(r"""^=?(["'’])?(.*?)["']?$""", r"\2", text) if text[:1] in "=\"'’" else text


def _negative(text: str) -> str:
    text = re.sub(r"^\(\s*(.*\d.*?)\s*\)$", r"-\1", text)
    return re.sub(r"^([^-]*\d.*)-$", r"-\1", text)


def _without_currency(text: str) -> str:
    """Without one currency before or behind; a sign of the number stays."""
    symbols = "".join({mark for mark in text if unicodedata.category(mark) == "Sc"})
    symbol = rf"[A-Z]{{0,3}}\s*[{re.escape(symbols)}]" if symbols else "(?!)"
    name = rf"({symbol}|({_CURRENCIES})(?![^\W\d_])\.?)"
    before = re.compile(rf"^([+-]?)\s*{name}\s*(?=[-+.,\d])")
    changed = before.sub(r"\1", text)
    return changed if changed != text else re.sub(rf"(?<=[\d.,])\s*{name}$", "", text)


def _ungrouped(text: str, decimal: str) -> str:
    found = _GROUPED.fullmatch(text)
    if found is None or (found[3] == decimal and "." not in text and "," not in text):
        return text
    sign, first, mark, rest, fraction = found.groups()
    if mark in ".," and rest.isdigit() and fraction is None:
        return text  # one mark between digits is a decimal mark as likely
    whole = sign + first + rest.replace(mark, "")
    return whole if fraction is None else f"{whole}{decimal}{fraction}"


def _other_mark(text: str, decimal: str) -> str:
    other = "," if decimal == "." else "."
    return text.replace(other, decimal) if text.count(other) == 1 and decimal not in text else text
