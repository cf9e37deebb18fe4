"""Errors of the experiments. Each message says what is wrong, where, and what to do."""

from __future__ import annotations


class ExperimentError(Exception):
    """Base of every error that an experiment raises on purpose."""


class ConfigError(ExperimentError, ValueError):
    """A configuration file or an option cannot be used."""


class DataError(ExperimentError, ValueError):
    """A table cannot be read or cannot be used for regression."""


class DataUnavailableError(DataError):
    """A table is not on this machine and may not be fetched."""


class ResultsError(ExperimentError):
    """A results folder cannot be written, or belongs to another run."""


class CaseError(ExperimentError):
    """One case cannot be scored; the others are unaffected."""
