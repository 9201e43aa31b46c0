"""The schema registry of an embedded broker or cluster, in threads of the same process."""

from __future__ import annotations

import atexit
import importlib.util
import os
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kqueue.base.errors import SettingError
from kqueue.base.extras import install_hint

if TYPE_CHECKING:
    from kqueue.schema_registry.server import RegistryServer

PACKAGES = ("starlette", "uvicorn", "fastavro", "jsonschema_rs")
PROPERTIES = {
    "security.protocol": "security.protocol",
    "ssl.ca.location": "ssl.truststore.location",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.username": "sasl.username",
    "sasl.password": "sasl.password",
}
"""Kafka's client properties by librdkafka's names."""
_RUNNING: weakref.WeakSet[EmbeddedRegistry] = weakref.WeakSet()


class EmbeddedRegistry:
    """A registry that runs while its broker does, on loopback, with the same port each time. It is
    the only one that writes.

    Raises: SettingError: a package is not installed.
    """

    def __init__(self) -> None:
        if any(importlib.util.find_spec(package) is None for package in PACKAGES):
            raise SettingError(
                f"schema_registry=True needs packages that are not installed; get them with: {install_hint('registry')}"
            )
        self._port = 0
        self._server: RegistryServer | None = None

    @property
    def url(self) -> str:
        """The address for clients, without a slash at its end. Raises RuntimeError: it is not
        running.
        """
        if self._server is None:
            raise RuntimeError("the schema registry is not running: its broker is not")
        return self._server.url

    def start(self, config: Mapping[str, Any]) -> None:
        """Start it; a second call does nothing.

        Args: config: what `client_config("confluent-kafka")` returns.
        Raises: what `RegistryServer` raises.
        """
        if self._server is not None:
            return
        from kqueue.config.client_security import ClientSecurity
        from kqueue.schema_registry.options import RegistryOptions, client_options
        from kqueue.schema_registry.server import RegistryServer

        properties = {ours: str(config[name]) for name, ours in PROPERTIES.items() if name in config}
        if "ssl.truststore.location" in properties:
            properties["ssl.truststore.type"] = "PEM"
        security = None if properties["security.protocol"] == "PLAINTEXT" else ClientSecurity.of(properties)
        client = client_options(config["bootstrap.servers"], security)
        self._server = RegistryServer(RegistryOptions(client=client, port=self._port, elects=False)).start()
        self._port = self._server.port
        _RUNNING.add(self)

    def stop(self) -> None:
        """Stop it; a second call does nothing."""
        server, self._server = self._server, None
        _RUNNING.discard(self)
        if server is not None:
            server.close()

    def close_descriptor(self) -> None:
        """Close this process's copy of its socket, in a forked child."""
        if self._server is not None:
            self._server.close_descriptor()


def _stop_all() -> None:
    for registry in list(_RUNNING):
        registry.stop()


def _close_descriptors_in_child() -> None:
    for registry in list(_RUNNING):
        registry.close_descriptor()


atexit.register(_stop_all)  # before that of `loop_thread`, which stops the brokers: the last is called first
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_descriptors_in_child)
