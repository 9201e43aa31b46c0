"""The settings `kqueue.metrics.otlp.*`: where metrics are pushed by OpenTelemetry's protocol."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.config.exposure import ALLOW_INSECURE

ENDPOINT = "kqueue.metrics.otlp.endpoint"
INTERVAL_MS = "kqueue.metrics.otlp.interval.ms"
HEADERS = "kqueue.metrics.otlp.headers"
PATH = "/v1/metrics"
"""What OTLP over HTTP adds to an endpoint that has no path."""
PORTS = {"http": 80, "https": 443}


class MetricsPush(NamedTuple):
    """Where metrics are pushed, and how often. `headers`: of each request, secrets maybe."""

    host: str
    port: int
    path: str
    uses_tls: bool
    interval_ms: int
    headers: Mapping[str, str]

    def __str__(self) -> str:
        """The URL, without the headers."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.uses_tls else 'http'}://{host}:{self.port}{self.path}"


def metrics_push(config: Config) -> MetricsPush | None:
    """Return what the settings ask for; None: nothing is pushed.

    Raises: SettingError: it is no URL, no header, or others could read what is pushed.
    """
    text: str | None = config[ENDPOINT]
    if text is None:
        return None
    wrong = SettingError(f"{ENDPOINT}: expected http://HOST:PORT or https://HOST:PORT, found {_without_user(text)!r}")
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise wrong from None
    is_strange = url.username is not None or url.query or url.fragment or any(not 32 < ord(char) < 127 for char in text)
    if url.scheme not in PORTS or not url.hostname or is_strange or port == 0:
        raise wrong
    uses_tls = url.scheme == "https"
    if not (uses_tls or _is_loopback(url.hostname) or config[ALLOW_INSECURE]):
        raise SettingError(
            f"{ENDPOINT}={text}: others on the way could read and change metrics: use https, a collector on this "
            f"machine (http://127.0.0.1:4318), or set {ALLOW_INSECURE}=true"
        )
    path = PATH if url.path in ("", "/") else url.path
    return MetricsPush(
        url.hostname, port or PORTS[url.scheme], path, uses_tls, config[INTERVAL_MS], _headers(config[HEADERS])
    )


def _without_user(text: str) -> str:
    """Return a URL without what may be a password in it."""
    scheme, separator, rest = text.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _headers(text: str | None) -> dict[str, str]:
    """Parse `name=value,name=value` with percent-encoded values, as OTEL_EXPORTER_OTLP_HEADERS has
    them.
    """
    headers: dict[str, str] = {}
    for item in (text or "").split(","):
        name, equals, value = item.strip().partition("=")
        value = unquote(value.strip())
        if not name and not equals:
            continue
        is_name = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
        if not (equals and is_name and value.isprintable() and value.isascii()):
            raise SettingError(f"{HEADERS}: expected name=value,name=value with values in printable ASCII")
        headers[name] = value
    return headers
