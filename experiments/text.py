"""Foreign text, such as the name of a data set, made fit to be shown."""

from __future__ import annotations

import unicodedata

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def visible(text: object) -> str:
    """The text on one line; control characters and lone surrogates, which XML refuses, replaced."""
    line = " ".join(str(text).split())
    return "".join(REPLACEMENT if unicodedata.category(m) in ("Cc", "Cs") else m for m in line)


def shortened(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis, in at most ``length`` characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
