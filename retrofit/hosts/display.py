"""How reports and plans are shown: in a few words, and as data frames."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from retrofit.words import SiteKind


def counted(found: Mapping[SiteKind, int]) -> str:
    """How many sites there are, and how many of each kind."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.items() if count)
    return f"{sum(found.values())} sites ({kinds or 'none'})"


def clipped(text: str, length: int = 200) -> str:
    """The text on one line, its end left out where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 3]}..."


def frame(items: Sequence[Any], kind: type) -> pd.DataFrame:
    """One row per dataclass ``kind``, one column per field; None becomes NaN among numbers."""
    import pandas as pd

    columns = [field.name for field in fields(kind)]
    return pd.DataFrame([asdict(item) for item in items], columns=columns)
