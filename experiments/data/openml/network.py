"""HTTP that cannot hang: time limits, few tries, and a host that is down is asked once.

The openml client, which passes no time limit and retries answers that cannot change, is not asked.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import ParseResult, urlparse

from experiments.errors import DataUnavailableError

if TYPE_CHECKING:
    import requests

_TOO_MANY_REQUESTS = 429
_SERVER_FAULT = 500
_FIRST_DELAY_S = 0.5


def require_api(server: str) -> ParseResult:
    """The parts of an API's address, which is shown and stored and names a folder: no secret.

    Raises:
        ValueError: it is none, or holds a password or a key; the message does not repeat it.
    """
    address = urlparse(server)
    if set("@%") & set(address.netloc) or address.query or address.fragment or address.params:
        raise ValueError(
            "must hold no user name, password or key, for it is written into results and paths; "
            "a key belongs into the openml client's own configuration file"
        )
    plain = server.isascii() and server.isprintable() and " " not in server
    named = address.scheme in ("http", "https") and address.hostname and address.port != 0
    if not (plain and named and "/api" in address.path):
        raise ValueError("must look like https://www.openml.org/api/v1/xml")
    return address


def host_and_port(url: str) -> tuple[str, int]:
    """Where a request for ``url`` goes.

    Raises:
        DataUnavailableError: it is no address.
    """
    try:
        address = urlparse(url)
        port = address.port or (443 if address.scheme == "https" else 80)
    except ValueError as error:
        raise DataUnavailableError(f"an address that is none was to be asked ({error})") from None
    return address.hostname or "", port


@dataclass
class Network:
    """Limits of one plan, and what was learnt about its hosts."""

    tries: int = 3
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 30.0
    first_delay_s: float = _FIRST_DELAY_S
    """Pause before the second try; doubled before each further one."""
    _down: dict[tuple[str, int], str] = field(default_factory=dict)

    def require(self, url: str) -> None:
        """Make sure that something listens at the host of ``url``; asked once per host.

        Raises:
            DataUnavailableError: nothing answers within ``connect_timeout_s``, be it because names
                are not resolved, packets are dropped, or the port is closed.
        """
        import requests.utils

        place = host_and_port(url)
        if requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url)):
            return  # behind a proxy a direct connection proves nothing
        if place not in self._down:
            self._down[place] = _connect_fault(*place, self.connect_timeout_s)
        if self._down[place]:
            raise DataUnavailableError(f"{place[0]} cannot be reached ({self._down[place]})")

    def get(self, url: str, key: str = "") -> requests.Response:
        """What the server answers, whole, if need be after some tries; ``key`` is sent along.

        Raises:
            DataUnavailableError: it does not, or it has a fault at each try.
        """
        import requests

        self.require(url)
        host, _ = host_and_port(url)
        fault = ""
        for attempt in range(self.tries):
            if attempt:
                time.sleep(self.first_delay_s * 2 ** (attempt - 1))
            try:
                response = requests.get(
                    url,
                    params={"api_key": key} if key else None,
                    timeout=(self.connect_timeout_s, self.read_timeout_s),
                )
            except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
                fault = f"connection broke: {type(error).__name__}"
            except requests.Timeout:
                fault = f"no answer within {self.read_timeout_s:g} s"
            except requests.RequestException as error:
                raise DataUnavailableError(f"{host}: {type(error).__name__}") from None
            else:
                status = response.status_code
                if status < _SERVER_FAULT and status != _TOO_MANY_REQUESTS:
                    return response
                fault = f"HTTP {status}"
        raise DataUnavailableError(f"{host} failed {self.tries} time(s) ({fault})")


def _connect_fault(host: str, port: int, timeout_s: float) -> str:
    """Empty if a connection can be opened. In a thread: looking up a name has no time limit."""
    outcome = [f"no connection within {timeout_s:g} s"]

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=timeout_s).close()
        except OSError as error:
            outcome[0] = error.strerror or str(error)
        else:
            outcome[0] = ""

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return outcome[0]
