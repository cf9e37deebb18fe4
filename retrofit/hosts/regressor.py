"""The estimator on a host's model in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabpfn import TabPFNRegressor

from retrofit.errors import UnsupportedModeError

if TYPE_CHECKING:
    from pathlib import Path


class HostRegressor(TabPFNRegressor):
    """A ``TabPFNRegressor``, except for what tabpfn can do with a model from a file only."""

    def save_fit_state(self, path: Path | str) -> None:
        """Refused: tabpfn's file would name the model, and this one has no name.

        Raises:
            UnsupportedModeError: always.
        """
        msg = (
            f"{path}: tabpfn saves a fit without its model, and could not load this one again; "
            "pickle the estimator, or save the patched host and fit "
            "TabPFNRegressor(model_path=...) with its file"
        )
        raise UnsupportedModeError(msg)
