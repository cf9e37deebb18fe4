"""Operator tests run on one thread, in memory that is poisoned before it is written."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors are slower on many threads, and far slower on busy ones."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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
