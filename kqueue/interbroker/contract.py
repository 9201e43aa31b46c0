"""The interface with which a broker sends requests to the other brokers of its cluster.

`network.peer_connections` does so over sockets, the tests' `ClusterSimulation` without any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kqueue.interbroker.errors import PeerError

REQUESTS = "requests"
"""The channel of requests that are answered soon. Replica fetches, which may wait for records, have
channels of their own.
"""
PeerCallback = Callable[[Any], None]
"""Called with the response, a message of `kqueue.wire`, or with a `PeerError`."""


class PeerAddress(NamedTuple):
    """The address of a broker. `epoch`: its broker epoch, raised at each of its starts."""

    host: str
    port: int
    epoch: int


class Peers(Protocol):
    """The other brokers of the cluster, as this one reaches them. Belongs to the owner thread."""

    def send(
        self, node_id: int, request: object, done: PeerCallback, *, timeout_ms: float, channel: str = REQUESTS
    ) -> Callable[[], None]:
        """Send `request` to a broker in the highest version that both sides know.

        Requests of one channel to one broker are answered in order, and wait for each other; other
        channels have connections of their own. A connection is opened on first use. While it
        can't be opened, requests fail at each attempt; attempts are at least a backoff apart.

        Args:
            request: a message of `kqueue.wire.messages`.
            done: called exactly once, never within `send`, unless cancelled. Memory of the response
                is valid as long as it is referenced, and counts as used that long.
            timeout_ms: from now to the response. A connection on which one is late is closed.
        Returns: cancels: `done` is not called any more. The broker may execute the request.

        Errors, each given to `done`: PeerUnavailable: no connection; the broker is not in the
        cluster, or has a new address or broker epoch. PeerTimedOut. PeerIncompatible.
        BadPeerResponse: the connection is closed.
        """
        ...

    def forget(self, node_id: int) -> None:
        """Close the connections to a broker. Their requests fail with PeerUnavailable; the next one
        opens a connection again.
        """
        ...


__all__ = ["REQUESTS", "PeerAddress", "PeerCallback", "PeerError", "Peers"]
