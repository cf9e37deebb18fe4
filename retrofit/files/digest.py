"""Digests of tensors and files, by which a checkpoint is recognised and damage is noticed."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """sha256 over names, dtypes, shapes and bytes of tensors, whatever their order or device."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        header = json.dumps([name, str(tensor.dtype), list(tensor.shape)])
        digest.update(header.encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def json_sha256(value: Any) -> str:
    """sha256 of plain JSON data, whatever the order of its keys."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def arrays_sha256(*arrays: np.ndarray) -> str:
    """sha256 over shapes and float64 values; one digest for all NaN, and for both zeros."""
    digest = hashlib.sha256()
    for array in arrays:
        plain = np.where(np.isnan(array), np.nan, array + 0.0).astype("<f8")
        digest.update(json.dumps(plain.shape).encode() + plain.tobytes())
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
