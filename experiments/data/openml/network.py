"""HTTP that cannot hang: time limits, few tries, and a host that is down is asked once.

The openml client passes no time limit to requests and retries answers that cannot change.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from experiments.errors import DataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests

_TOO_MANY_REQUESTS = 429
_SERVER_FAULT = 500
_FIRST_DELAY_S = 0.5


def require_api(server: str) -> str:
    """The address of an API, which is shown, stored, and part of the cache's path: no secret.

    Raises:
        ValueError: it is none, or holds a password or a key; the message does not repeat it.
    """
    address = urlparse(server)
    if "@" in address.netloc or address.query or address.fragment or address.params:
        raise ValueError(
            "must hold no user name, password or key, for it is written into results and paths; "
            "a key belongs into the openml client's own configuration file"
        )
    plain = server.isascii() and server.isprintable() and " " not in server
    named = address.scheme in ("http", "https") and address.hostname and address.port != 0
    if not (plain and named and "/api" in address.path):
        raise ValueError("must look like https://www.openml.org/api/v1/xml")
    return server


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

        if requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url)):
            return  # behind a proxy a direct connection proves nothing
        address = urlparse(url)
        place = (address.hostname or "", address.port or (443 if address.scheme == "https" else 80))
        if place not in self._down:
            self._down[place] = _connect_fault(*place, self.connect_timeout_s)
        if self._down[place]:
            raise DataUnavailableError(f"{place[0]} cannot be reached ({self._down[place]})")

    def session(self) -> requests.Session:
        """A requests session under these limits."""
        import requests

        network = self

        class PatientSession(requests.Session):
            def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
                network.require(str(request.url))
                options["timeout"] = (network.connect_timeout_s, network.read_timeout_s)
                response = network._patient(
                    lambda: super(PatientSession, self).send(request, **options), request
                )
                if "charset" not in response.headers.get("Content-Type", "").lower():
                    # requests would read text without a declared charset as Latin-1, and the
                    # client's checksum of it would fail for every accent.
                    response.encoding = "utf-8"
                return response

        return PatientSession()

    def _patient(
        self, ask: Callable[[], requests.Response], request: requests.PreparedRequest
    ) -> requests.Response:
        import requests

        host = urlparse(str(request.url)).hostname
        fault = ""
        for attempt in range(self.tries):
            if attempt:
                time.sleep(self.first_delay_s * 2 ** (attempt - 1))
            try:
                response = ask()
            except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
                fault = f"connection broke: {type(error).__name__}"
            except requests.Timeout:
                fault = f"no answer within {self.read_timeout_s:g} s"
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
