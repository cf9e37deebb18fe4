"""Operator tests run on one thread, in memory that is poisoned before it is written."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def operators_on_one_thread(one_thread):
    """Every operator test."""


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch):
    """``torch.empty`` and its kin return NaN, so that reading unwritten memory shows."""
    for name in ("empty", "empty_like"):
        _poison(monkeypatch, torch, name)
    for name in ("new_empty", "new_empty_strided"):
        _poison(monkeypatch, torch.Tensor, name)


def _poison(monkeypatch, owner, name):
    original = getattr(owner, name)

    def poisoned(*args, **kwargs):
        out = original(*args, **kwargs)
        return out.fill_(float("nan")) if out.is_floating_point() else out

    monkeypatch.setattr(owner, name, poisoned)
