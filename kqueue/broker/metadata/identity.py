"""The names and addresses of this broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kqueue.base.config import Config
from kqueue.replication.registrations import Endpoint

Endpoints = Callable[[str], tuple[str, int]]


class BrokerIdentity:
    """The broker as its clients and the other brokers know it.

    Attributes:
        cluster_id: 22 characters of URL-safe base64, constant for the data folder.
        rack: None: it is in none.
        endpoints: returns host and port that are advertised to clients of a listener.
        listeners: the advertised addresses of all listeners, by name.

    The network layer sets `endpoints` and `listeners` before the broker starts.
    """

    def __init__(self, config: Config, cluster_id: str) -> None:
        self.node_id = node_id(config)
        self.rack: str | None = config["broker.rack"]
        self.cluster_id = cluster_id
        self.endpoints: Endpoints = _no_endpoints
        self.listeners: Mapping[str, Endpoint] = {}


def node_id(config: Config) -> int:
    """Return the number of this broker: `node.id`, or `broker.id` if only that is set."""
    name = "broker.id" if config.is_set("broker.id") and not config.is_set("node.id") else "node.id"
    return int(config[name])


def _no_endpoints(listener: str) -> tuple[str, int]:
    raise AssertionError("no listener is open yet")
