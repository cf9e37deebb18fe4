"""Errors of the experiments. Each message says what is wrong, where, and what to do."""

from __future__ import annotations

from experiments.io.text import lines, message

MAX_MESSAGE = 1900
"""Characters of a message, whatever a file or a parser has put into it."""


class ExperimentError(Exception):
    """Base of every error that an experiment raises on purpose."""

    def __str__(self) -> str:
        return lines(super().__str__(), MAX_MESSAGE)


class ConfigError(ExperimentError, ValueError):
    """A configuration file or an option cannot be used."""


class DataError(ExperimentError, ValueError):
    """A table cannot be read or cannot be used for regression; the message is one short line."""

    def __init__(self, text: str) -> None:
        super().__init__(message(text))


class DataUnavailableError(DataError):
    """A table is not on this machine and may not be fetched."""


class ChecksumError(DataError):
    """What a server sent is not what it says that it sends; nothing of it was kept."""


class DamagedCacheError(DataError):
    """A cached file cannot be trusted; ``reason`` says why without naming the file."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ResultsError(ExperimentError):
    """A results folder cannot be written, or belongs to another run."""


class CaseError(ExperimentError):
    """One case cannot be scored; the others are unaffected."""


class PriorError(ExperimentError, ValueError):
    """The prior cannot draw a usable task."""


class TrainingError(ExperimentError):
    """A training run cannot start, go on, or be resumed."""


class FolderInUseError(ResultsError):
    """Another process is writing to the results folder."""


class UnsupportedTabPFNError(ExperimentError):
    """The installed tabpfn does not have the internals that a shared fit relies on."""


class NonFinitePredictionError(CaseError, ArithmeticError):
    """A prediction holds NaN or infinity, so no score can be made of it."""


class NonFiniteScoreError(CaseError, ArithmeticError):
    """A prediction is finite, but its error is not."""


class InterruptedWriteError(ResultsError):
    """A result could not be written in the middle of a sweep; earlier ones are safe."""


class BenchmarkError(ExperimentError):
    """What was to be timed does not compute what it should."""


class MissingExtraError(ExperimentError):
    """A part of oretro needs a package that an optional extra installs."""


class EngineError(ExperimentError):
    """Cases cannot be run where they were to run; finished results are safe."""


class WorkerDiedError(CaseError):
    """The process that ran a case ended before it gave a result."""


class CaseTimeoutError(CaseError):
    """A case took longer than it was allowed to."""
