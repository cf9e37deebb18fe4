"""Foreign text, such as the name of a data set, made fit to be shown."""

from __future__ import annotations

import os
import unicodedata

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def visible(text: object) -> str:
    """The text on one line, in reading order.

    Control characters and lone surrogates, which XML refuses, are replaced, and so are marks that
    reverse what is written after them.
    """
    return _fit(" ".join(str(text).split()))


def message(text: str, length: int = 900) -> str:
    """The text without what cannot be shown; of a long one beginning and end, which say what to do.

    What a file holds, such as a name of a million characters, may be part of it.
    """
    return _fit(_clipped(text, length))


def lines(text: str, length: int) -> str:
    """As ``message``, of several lines."""
    return "\n".join(map(_fit, _clipped(text, length).split("\n")))


def _clipped(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]}…{text[1 + half - length :]}"


def _fit(line: str) -> str:
    return "".join(REPLACEMENT if _unfit(mark) else mark for mark in line)


def _unfit(mark: str) -> bool:
    reverses = unicodedata.bidirectional(mark) in _BIDIRECTIONAL
    return reverses or unicodedata.category(mark) in ("Cc", "Cs")


def encodable(text: str) -> str:
    """The text with what a table cannot hold as escapes: NUL, lone surrogates as ``\\udcxx``."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def readable_name(name: str) -> str:
    """The name of a file as text; bytes of it that are not UTF-8 as ``\\xNN`` escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def shortened(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis, in at most ``length`` characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
