"""Answers to coalitions, kept in memory and, if asked for, in a folder from which a run goes on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from retrofit.errors import CheckpointError
from retrofit.files.atomic import write_atomic
from retrofit.hosts.report import package_versions

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from retrofit.closed.request import Request

    Compute = Callable[[Any, Sequence[Request], Callable[[int, np.ndarray], None]], None]


class CoalitionCache:
    """Answers by what they depend on: host, settings, table, scope, versions, and the request."""

    def __init__(self, folder: str | os.PathLike[str] | None, identity: tuple[Any, ...]) -> None:
        scope, patched, X, y, settings = identity
        config = patched.config
        self._identity = hashlib.sha256(
            json.dumps(
                [
                    scope,
                    patched.sha256,
                    [config.variant, config.presence, sorted(config.tau.items())],
                    [config.eps_den, config.eps_mode],
                    sorted((name, repr(value)) for name, value in settings.items()),
                    _table_sha256(X),
                    _table_sha256(y[:, None]),
                    sorted(package_versions().items()),
                ]
            ).encode()
        )
        self._known: dict[str, np.ndarray] = {}
        self.computed = 0
        self._folder = None if folder is None else Path(folder)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)

    def answers(
        self, X_test: Any, requests: Sequence[Request], compute: Compute
    ) -> list[np.ndarray]:
        """One answer per request; what is not known is computed, once each, and kept."""
        table = _table_sha256(X_test)
        keys = [self._key(table, request) for request in requests]
        missing: dict[str, Request] = {}
        for key, request in zip(keys, requests, strict=True):
            if self._find(key) is None:
                missing.setdefault(key, request)
        order = list(missing)
        if order:
            compute(
                X_test, list(missing.values()), lambda place, out: self._keep(order[place], out)
            )
        return [self._known[key].copy() for key in keys]

    def _key(self, table: str, request: Request) -> str:
        digest = self._identity.copy()
        digest.update(table.encode())
        for part in (request.rows, request.columns, request.test.astype("<i8")):
            digest.update(part.tobytes() + b"|")
        return digest.hexdigest()

    def _find(self, key: str) -> np.ndarray | None:
        if key not in self._known and self._folder is not None:
            path = self._folder / f"{key}.npy"
            if path.is_file():
                try:
                    self._known[key] = np.load(path, allow_pickle=False)
                except (ValueError, OSError, EOFError) as error:
                    msg = f"{path} is damaged ({error}); delete it, and it is computed again"
                    raise CheckpointError(msg) from error
        return self._known.get(key)

    def _keep(self, key: str, answer: np.ndarray) -> None:
        self._known[key] = answer
        self.computed += 1
        if self._folder is not None:
            from io import BytesIO

            content = BytesIO()
            np.save(content, answer, allow_pickle=False)
            write_atomic(self._folder / f"{key}.npy", content.getvalue(), error=CheckpointError)


def _table_sha256(table: Any) -> str:
    """Digest of a table's cells, in whatever types they are."""
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(np.asarray(table))
    cells = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    names = json.dumps([str(name) for name in frame.columns])
    return hashlib.sha256(names.encode() + cells.tobytes()).hexdigest()
