"""What is asked of a removable table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class Request:
    """One coalition, and which test rows it is to answer for."""

    rows: np.ndarray
    """(N,)"""
    columns: np.ndarray
    """(C,)"""
    test: np.ndarray
    """Numbers of test rows."""
