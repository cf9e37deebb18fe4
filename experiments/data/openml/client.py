"""The official openml client as a reader of cached files, with its settings put back afterwards."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from experiments.data.openml.network import require_api
from experiments.errors import DataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

_SETTINGS = ("server", "apikey", "_root_cache_directory")
_SKIP_PARQUET = "OPENML_SKIP_PARQUET"
_NOWHERE = "http://offline.invalid/api/v1/xml"
"""The server while files are read: a name that never resolves, for nothing may be asked."""
_SECRETS_IN_URL = (
    re.compile(r"(api_?key=)[^&\s'\"\])>]+", re.IGNORECASE),
    re.compile(r"(://)[^/\s'\"?#]*@"),
)
_LOCK = threading.RLock()
"""The client's settings are module globals: one user at a time."""

logger = logging.getLogger("oretro.openml")


def import_openml() -> ModuleType:
    """Import the client, which reads its configuration file and creates its folders.

    Raises:
        DataUnavailableError: it cannot, or it is a version that keeps its settings elsewhere.
    """
    try:
        import openml
    except (OSError, RuntimeError) as error:
        raise DataUnavailableError(
            f"the openml client cannot start ({mask(str(error))}); set OPENML_CACHE_DIR and "
            "XDG_CONFIG_HOME to folders that exist or can be created"
        ) from None
    if not all(hasattr(openml.config, name) for name in _SETTINGS):
        raise DataUnavailableError(
            f"openml {openml.__version__} keeps its settings where oretro does not look for them; "
            "run: pip install 'openml>=0.15.1,<0.16'"
        )
    module: ModuleType = openml
    return module


def cache_folder(root: Path, server: str) -> Path:
    """Where the client keeps what it has from ``server``.

    Raises:
        DataUnavailableError: the address cannot be one of an API, or holds a secret.
    """
    try:
        address = require_api(server)
    except ValueError as error:
        raise DataUnavailableError(
            f"the openml client's own configuration names a server that cannot be used: it {error}"
        ) from None
    return root.joinpath(*reversed(address.netloc.split(".")))


@contextmanager
def reader(root: Path, *, parquet: bool) -> Iterator[tuple[ModuleType, Path]]:
    """The client, and the folder below ``root`` from which it reads, as long as the block lasts.

    Without ``parquet`` it reads ARFF alone.
    """
    openml = import_openml()
    config = openml.config
    with _LOCK:
        before = config.server, config._root_cache_directory, os.environ.get(_SKIP_PARQUET)
        try:
            config.server, config._root_cache_directory = _NOWHERE, root
            os.environ[_SKIP_PARQUET] = "false" if parquet else "true"
            yield openml, cache_folder(root, _NOWHERE)
        finally:
            config.server, config._root_cache_directory, skip = before
            if skip is None:
                os.environ.pop(_SKIP_PARQUET, None)
            else:
                os.environ[_SKIP_PARQUET] = skip


def mask(text: str) -> str:
    """The text without passwords in addresses, and the user's API key."""
    for secret in _SECRETS_IN_URL:
        text = secret.sub(lambda found: f"{found[1]}***{'@' if found[1] == '://' else ''}", text)
    openml = sys.modules.get("openml")
    key = getattr(getattr(openml, "config", None), "apikey", None) or ""
    return text.replace(key, "***") if key else text


class MaskingFilter(logging.Filter):
    """Takes secrets out of records of a logger that prints addresses."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record, and let it pass."""
        with suppress(TypeError, ValueError):  # a malformed one is its author's to be told about
            record.msg, record.args = mask(record.getMessage()), ()
        return True
