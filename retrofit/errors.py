"""Errors of the library. Each message says what is wrong, where, and what to do."""

from __future__ import annotations


def brief(reason: object, length: int = 300) -> str:
    """What someone else's error says, in one line of at most ``length`` characters."""
    line = " ".join(str(reason).split())
    return line if len(line) <= length else f"{line[: length - 3]}..."


class RetrofitError(Exception):
    """Base of every error that ``retrofit`` raises on purpose."""


class HostNotFoundError(RetrofitError, FileNotFoundError):
    """A host name or path does not lead to a checkpoint on this machine."""


class UnsupportedHostError(RetrofitError, ValueError):
    """The host is not a model that this version of oretro can patch."""


class SiteMismatchError(UnsupportedHostError):
    """The host's sites differ from its generation's site map."""


class VariantError(RetrofitError, ValueError):
    """A variant or one of its settings is unknown or contradictory."""


class AlreadyPatchedError(RetrofitError, ValueError):
    """The host already carries O-closed blocks."""


class TrainingModeError(RetrofitError, ValueError):
    """The host, or a part of it, is in training mode."""


class CalibrationError(RetrofitError, ValueError):
    """tau cannot be set from the calibration tables, or a calibration is damaged or foreign."""


class CheckpointError(RetrofitError, ValueError):
    """A checkpoint file is damaged, foreign, or not what it claims to be."""


class UnsupportedModeError(RetrofitError, NotImplementedError):
    """A mode of the host that a patched model does not support."""


class PresenceError(RetrofitError, ValueError):
    """A declaration of NULL rows or columns that does not fit, or that nobody would obey."""


class TableError(RetrofitError, ValueError):
    """One of many tables cannot be predicted; the error itself is the cause of this one."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(f"tables[{index}]: {type(error).__name__}: {error}")
        self.index = index


class NonFiniteOutputError(RetrofitError, ArithmeticError):
    """A patched module emitted NaN or infinity."""
