"""The official openml client under our settings, with every global of it put back afterwards."""

from __future__ import annotations

import logging
import os
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from experiments.data.openml.network import require_api
from experiments.errors import DataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from experiments.data.openml.network import Network

_SETTINGS = (
    "server",
    "apikey",
    "_root_cache_directory",
    "retry_policy",
    "connection_n_retries",
    "show_progress",
)
_CALLS = ("requests", "minio", "logging")
_SKIP_PARQUET = "OPENML_SKIP_PARQUET"
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
    known = all(hasattr(openml.config, name) for name in _SETTINGS)
    if not known or not all(hasattr(openml._api_calls, name) for name in _CALLS):
        raise DataUnavailableError(
            f"openml {openml.__version__} keeps its settings where oretro does not look for them; "
            "run: pip install 'openml>=0.15.1,<0.16'"
        )
    module: ModuleType = openml
    return module


@contextmanager
def openml_client(
    root: Path, server: str | None, network: Network | None, *, parquet: bool
) -> Iterator[ModuleType]:
    """Use the client on the cache under ``root``.

    ``network=None`` refuses every request. Without ``parquet`` the client reads ARFF alone. Its
    settings, log records and environment are as before when the block is left.
    """
    openml = import_openml()
    config, calls = openml.config, openml._api_calls
    with _LOCK:
        settings = {name: getattr(config, name) for name in _SETTINGS}
        modules = {name: getattr(calls, name) for name in _CALLS}
        skip = os.environ.get(_SKIP_PARQUET)
        factory = logging.getLogRecordFactory()
        try:
            config._root_cache_directory = root
            config.server = _server(server or config.server)
            config.show_progress = False
            # Trying again is the session's business: it knows which answers can change.
            config.connection_n_retries = 1
            for name, overlay in _overlays(modules, network).items():
                setattr(calls, name, overlay)
            os.environ[_SKIP_PARQUET] = "false" if parquet else "true"
            logging.setLogRecordFactory(_masking(factory))
            yield openml
        finally:
            logging.setLogRecordFactory(factory)
            for name, value in settings.items():
                setattr(config, name, value)
            for name, module in modules.items():
                setattr(calls, name, module)
            if skip is None:
                os.environ.pop(_SKIP_PARQUET, None)
            else:
                os.environ[_SKIP_PARQUET] = skip


def _server(server: str) -> str:
    try:
        return require_api(server)
    except ValueError as error:
        raise DataUnavailableError(
            f"the openml client's own configuration names a server that cannot be used: it {error}"
        ) from None


def mask(text: str) -> str:
    """The text without passwords in addresses, and the API key that the client puts into all."""
    for secret in _SECRETS_IN_URL:
        text = secret.sub(lambda found: f"{found[1]}***{'@' if found[1] == '://' else ''}", text)
    key = _api_key()
    return text.replace(key, "***") if key else text


def _api_key() -> str:
    import sys

    openml = sys.modules.get("openml")
    return getattr(getattr(openml, "config", None), "apikey", None) or ""


class _Overlay:
    """A module with some of its names replaced, for one importer of it."""

    def __init__(self, module: ModuleType, **names: Any) -> None:
        self._module = module
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _overlays(modules: dict[str, Any], network: Network | None) -> dict[str, Any]:
    session = _refusing_session if network is None else network.session
    minio = modules["minio"]

    def limited_minio(endpoint: str, **options: Any) -> Any:
        if network is None:
            raise DataUnavailableError("the network may not be used")
        network.require(f"http://{endpoint}")
        if options.get("http_client") is None:
            options["http_client"] = _pool(network)
        return minio.Minio(endpoint, **options)

    return {
        "requests": _Overlay(modules["requests"], Session=session),
        "minio": _Overlay(minio, Minio=limited_minio),
        # The client logs to the root logger, which prints on stderr if nobody set it up.
        "logging": _Overlay(modules["logging"], info=logger.debug, warning=logger.info),
    }


def _pool(network: Network) -> Any:
    import urllib3

    return urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=network.connect_timeout_s, read=network.read_timeout_s),
        retries=urllib3.Retry(
            total=network.tries - 1,
            backoff_factor=network.first_delay_s,
            status_forcelist=(500, 502, 503, 504),
        ),
    )


def _refusing_session() -> Any:
    import requests

    class RefusingSession(requests.Session):
        def send(self, request: Any, **options: Any) -> requests.Response:  # noqa: ARG002
            raise DataUnavailableError("the network may not be used")

    return RefusingSession()


def _masking(factory: Any) -> Any:
    def make(*arguments: Any, **named: Any) -> logging.LogRecord:
        record: logging.LogRecord = factory(*arguments, **named)
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            return record  # a malformed record is its author's to be told about
        masked = mask(text)
        if masked != text:
            record.msg, record.args = masked, ()
        return record

    return make
