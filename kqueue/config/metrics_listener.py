"""The setting `kqueue.metrics.listener`: where metrics and health are served."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.config.exposure import ALLOW_INSECURE
from kqueue.config.listeners import ListenerAddress, ListenerConfig, parse_listener_address
from kqueue.security.protocols import SecurityProtocol

SETTING = "kqueue.metrics.listener"
NAMES_MAX = "kqueue.metrics.names.max"
NAME = "METRICS"
"""The name of the listener in settings such as listener.name.metrics.ssl.keystore.location."""


class MetricsListener(NamedTuple):
    """Where to listen. `plan`: as of a listener for clients, for the settings of TLS."""

    host: str
    port: int
    plan: ListenerConfig

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.uses_tls else 'http'}://{host}:{self.port}"

    def shifted(self, number: int) -> MetricsListener:
        """Return the address so many ports further; port 0, a free one, stays."""
        return self._replace(port=self.port + number) if self.port else self

    @property
    def uses_tls(self) -> bool:
        """Whether it is https."""
        return self.plan.protocol.uses_tls


def metrics_listener(config: Config) -> MetricsListener | None:
    """Return what the settings ask for; None: no metrics are served.

    Raises: SettingError: it is no address, or other machines could read it without TLS.
    """
    text: str | None = config[SETTING]
    if text is None:
        return None
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
    if scheme not in ("http", "https"):
        raise SettingError(f"{SETTING}: expected HOST:PORT, http://HOST:PORT or https://HOST:PORT, found {text!r}")
    try:
        given = parse_listener_address(f"{NAME}://{rest}", SETTING)
    except SettingError:
        raise SettingError(
            f"{SETTING}: expected HOST:PORT or https://HOST:PORT with a port from 0 to 65535, found {text!r}"
        ) from None
    address = ListenerAddress(NAME, "127.0.0.1" if given.is_localhost else given.host, given.port)
    protocol = SecurityProtocol.SSL if scheme == "https" else SecurityProtocol.PLAINTEXT
    if not (address.is_loopback or protocol.uses_tls or config[ALLOW_INSECURE]):
        raise SettingError(
            f"{SETTING}={text}: other machines could read metrics without TLS: listen on loopback (127.0.0.1:9404), "
            f"use https://{rest} with ssl.keystore.location, or set {ALLOW_INSECURE}=true"
        )
    return MetricsListener(address.host, address.port, ListenerConfig(address, None, protocol))
