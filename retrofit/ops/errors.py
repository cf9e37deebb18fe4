"""Errors of the operators; ``retrofit.ops`` imports torch alone, so they live here."""

from __future__ import annotations


class OperatorError(ValueError):
    """An operator was given a setting or a tensor that it cannot use."""


class ShapeError(OperatorError):
    """Tensors that belong together have shapes, dtypes or devices that do not fit."""


class KernelUnavailableError(OperatorError):
    """The kernel that was asked for cannot serve this request; the message says why."""
