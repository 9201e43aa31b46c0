"""A client of the REST API of a schema registry: this one, Confluent's, Karapace or Apicurio.

Requests are bounded in size and time. Those that change nothing are sent again a few times.
Used by the command line, the console and Spark.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import KqueueError, SettingError
from kqueue.config.http_client import HttpOptions, read_bounded, read_url
from kqueue.config.tls_client import TlsClientSettings

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S = 5.0
RETRY_S = (0.2, 1.0)
"""Seconds before each retry: the registry did not answer, answered 5xx, or is busy."""
BUSY = (408, 429)
REASON_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The address and credentials of a registry; it can be pickled, and `repr` shows no secret.

    `tls`: None: the authorities of the system.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: TlsClientSettings | None = field(default=None, repr=False)


class RegistryUnreachable(KqueueError):
    """A registry that does not answer, or whose answer is of no use.

    Attributes: may_pass: the same request may succeed later.
    """

    def __init__(self, message: str, *, may_pass: bool) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class RegistryRefused(KqueueError):
    """A registry answered with an error.

    Attributes: status: of HTTP. code: the registry's own number, such as 40401; 0: it gave none.
    """

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class RegistryRestClient:
    """Sends requests to one registry. Thread: one at a time.

    Args: bytes_max: of an answer.
    """

    def __init__(
        self,
        settings: RegistrySettings,
        bytes_max: int,
        timeout_s: float = TIMEOUT_S,
        retry_s: Sequence[float] = RETRY_S,
    ) -> None:
        self._url = settings.url.rstrip("/")
        self._options = HttpOptions(bytes_max, timeout_s, settings.tls)
        self._retry_s = retry_s
        self._headers = {"Accept": f"{MEDIA_TYPE}, application/json"}
        if settings.token is not None:
            self._headers["Authorization"] = f"Bearer {settings.token}"
        elif settings.user is not None:
            pair = f"{settings.user}:{settings.password or ''}".encode()
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        """Return the JSON of an answer. Raises: RegistryRefused, RegistryUnreachable."""
        waits = iter(self._retry_s)
        while True:
            try:
                return self._sent("GET", path, query)
            except RegistryRefused as error:
                is_final = error.status < 500 and error.status not in BUSY
                wait_s = None if is_final else next(waits, None)
                if wait_s is None:
                    raise
            except RegistryUnreachable as error:
                wait_s = next(waits, None) if error.may_pass else None
                if wait_s is None:
                    raise
            time.sleep(wait_s)

    def send(self, method: str, path: str, query: Mapping[str, object] | None = None, body: Any = None) -> Any:
        """Return the JSON of an answer to a request that may change something: it is sent once.

        Args: body: of JSON; None: there is none.
        Raises: RegistryRefused, RegistryUnreachable.
        """
        return self._sent(method, path, query, body)

    def _sent(self, method: str, path: str, query: Mapping[str, object] | None, body: Any = None) -> Any:
        url = self._url + path + (f"?{urlencode(_texts(query))}" if query else "")
        headers, data = self._headers, None
        if body is not None:
            headers, data = {**headers, "Content-Type": MEDIA_TYPE}, json.dumps(body).encode()
        try:
            return json.loads(read_url(Request(url, data, headers, method=method), self._options))
        except HTTPError as error:
            with error:
                raise self._refused(error) from None
        except (SettingError, ValueError, RecursionError) as error:
            raise RegistryUnreachable(_shortened(error), may_pass=False) from None
        except OSError as error:
            reason = _shortened(getattr(error, "reason", None) or error) or type(error).__name__
            raise RegistryUnreachable(reason, may_pass=True) from None

    def _refused(self, error: HTTPError) -> RegistryRefused:
        try:
            answer = json.loads(read_bounded(error, self._options.bytes_max, monotonic_s() + self._options.timeout_s))
            code, message = answer.get("error_code"), answer.get("message")
        except (OSError, ValueError, AttributeError, RecursionError, HTTPException):
            code = message = None
        return RegistryRefused(
            error.code,
            code if type(code) is int else 0,
            _shortened(message) if isinstance(message, str) and message else str(error.reason),
        )


def subject_path(subject: str) -> str:
    """Return the path of a subject, whatever is in its name."""
    return f"/subjects/{quote(subject, safe='')}"


def _texts(query: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in query.items()}


def _shortened(text: object) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= REASON_CHARACTERS_MAX else line[: REASON_CHARACTERS_MAX - 1] + "…"
