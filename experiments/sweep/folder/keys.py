"""What makes two results the same result: a hash over everything that decides a number.

A finished (case, variant) is taken over by a later run only under an equal key.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class ResultKey:
    """Identity of one (case, variant). Timings and machine names are left out on purpose."""

    dataset: str
    data_sha256: str
    split_sha256: str
    seed: int
    variant: str
    settings: tuple[tuple[str, str], ...]
    """What the variant was built with, for example target presence or tau."""
    host_sha256: str
    n_estimators: int
    dtype: str
    device: str
    threads: int
    cpu: tuple[tuple[str, str], ...]
    """What picks the kernels of a CPU, by library."""
    versions: tuple[tuple[str, str], ...]
    code_sha256: str
    """Hash of the code that runs a case, for a version alone does not change with an edit."""

    @property
    def digest(self) -> str:
        """SHA-256 over all fields."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @property
    def identity(self) -> tuple[str, int, str]:
        """The place in the table that this result belongs to."""
        return (self.dataset, self.seed, self.variant)


def differences(mine: ResultKey, theirs: dict[str, object]) -> list[str]:
    """Say field by field how a stored key differs, ``field: stored -> now``."""
    now = json.loads(json.dumps(asdict(mine)))
    lines = []
    for field, value in now.items():
        stored = theirs.get(field)
        if stored != value:
            lines.append(f"{field}: {_short(stored)} -> {_short(value)}")
    return lines


def _short(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(f"{name} {text}" for name, text in value) or "none"
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text
