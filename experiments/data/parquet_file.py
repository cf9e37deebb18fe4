"""Reading a parquet file; row labels that nobody named do not become a feature."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from experiments.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from experiments.data.settings import FileSet

_LABELS = re.compile(r"__index_level_\d+__|\s*")
"""What stands for labels without a name: pandas' own, for readers that are not pandas, or none."""


def read_parquet(entry: FileSet, notes: list[str]) -> pd.DataFrame:
    """Return the table with the named levels of its index as columns; add notes for the reader.

    Raises:
        DataError: the file is damaged, or nothing here can read parquet.
    """
    path = entry.path
    try:
        frame = _decoded(path, notes)
    except DataError:
        raise
    except ImportError:
        raise DataError(
            f"{path} is a parquet file, and no usable pyarrow is installed here to read it; run: "
            "pip install -U pyarrow"
        ) from None
    except Exception as error:  # pyarrow's own errors, which share no base class
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path}: not a whole parquet file: {line}") from None
    made_up = [name for name in map(str, frame.columns) if _LABELS.fullmatch(name)]
    labels = [name for name in made_up if name not in entry.drop]
    if labels:
        shown = ", ".join(name.strip() or "column ''" for name in labels)
        notes.append(f"row labels without a name are left out: {shown}")
    kept: pd.DataFrame = frame.drop(columns=labels)
    return kept


def _decoded(path: Path, notes: list[str]) -> pd.DataFrame:
    """The frame with the named levels of its index as columns, and every text of it read."""
    import pandas as pd

    frame = pd.read_parquet(path)
    if isinstance(frame.index, pd.RangeIndex):
        if frame.index.name is not None:
            notes.append(f"the index '{frame.index.name}' counts the rows and is left out")
        frame = frame.reset_index(drop=True)
    else:
        frame = _with_named_levels(frame, path, notes)
    # pandas reads text when it is first looked at, and damage shows only then.
    texts = [name for name, kind in frame.dtypes.items() if isinstance(kind, pd.StringDtype)]
    for kind in frame.dtypes:
        if isinstance(kind, pd.CategoricalDtype):
            kind.categories.to_numpy()
    read: pd.DataFrame = frame.astype(dict.fromkeys(texts, object)) if texts else frame
    return read


def _with_named_levels(frame: pd.DataFrame, path: Path, notes: list[str]) -> pd.DataFrame:
    names = frame.index.names
    nameless = [level for level, name in enumerate(names) if not str(name or "").strip()]
    if nameless:
        example = frame.index.get_level_values(nameless[0])[:1].tolist()
        notes.append(f"row labels without a name are left out, such as {example}")
    kept: pd.DataFrame = frame.reset_index(level=nameless, drop=True) if nameless else frame
    if len(nameless) < frame.index.nlevels:
        for name in kept.index.names:
            if name in kept.columns:
                raise DataError(f"{path}: both a column and the index are named '{name}'")
        kept = kept.reset_index()
    return kept
