"""Connections to the other brokers of the cluster: `interbroker.contract.Peers` over sockets.

Each broker and channel has one connection. All of it runs on the thread of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.jobs import Jobs
from kqueue.base.settings import KiB, MiB
from kqueue.base.timers import Timers
from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.interbroker.contract import REQUESTS, PeerAddress, PeerCallback
from kqueue.interbroker.errors import PeerUnavailable
from kqueue.network.client_log import ClientLog
from kqueue.network.contract import BudgetWaiter
from kqueue.network.memory_budgets import RequestBudget, machine_bytes, within_memory
from kqueue.network.peer_channel import PeerChannel
from kqueue.network.response_buffer import CountedBytes

if TYPE_CHECKING:
    from kqueue.network.peer_security import PeerSecurity

OVERHEAD_BYTES = 8 * MiB
"""The bytes that a response may hold besides the records of `replica.fetch.response.max.bytes`: its
fields, and one batch that is larger than the limit.
"""
RESPONSE_BYTES_OF_ALL = 256 * MiB
"""Above so many bytes of responses in memory, or an eighth of the machine's, only one connection
goes on to receive.
"""
RECEIVE_BYTES = 128 * KiB
logger = logging.getLogger("kqueue.server")


_CLIENT_ID = "kqueue-broker-"


def peer_client_id(node_id: int) -> str:
    """Return how the client ids of a broker's connections to others begin."""
    return f"{_CLIENT_ID}{node_id}"


def peer_of(client_id: str | None) -> int | None:
    """Return the node id of the broker whose connections have this client id; None: it is a
    client's.
    """
    if client_id is None or not client_id.startswith(_CLIENT_ID):
        return None
    number = client_id.removeprefix(_CLIENT_ID).partition("-")[0]
    return int(number) if number.isdecimal() else None


class PeerConnections:
    """The other brokers, as `Peers`.

    Args:
        address_of: where a broker is reached; None: it is not in the cluster. Asked before each
            request: a connection to another address, or to an earlier start of the broker, is
            closed.
        client_id: begins the client id of all connections; the channel follows.
        response_bytes_max: limit on the length of a response.

    Attributes:
        is_leaving: returns whether a broker stops in order; then the end of its connections is
            logged as information only.
        security: what connections need besides TCP; None: nothing.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timers: Timers,
        jobs: Jobs,
        address_of: Callable[[int], PeerAddress | None],
        *,
        client_id: str,
        response_bytes_max: int,
        rng: random.Random,
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.timers = timers
        self.jobs = jobs
        self.rng = rng
        self.log = ClientLog(logger, clock)
        self.budget = RequestBudget(within_memory(RESPONSE_BYTES_OF_ALL, machine_bytes()))
        self.received = memoryview(bytearray(RECEIVE_BYTES))
        self.response_bytes_max = response_bytes_max
        self.is_leaving: Callable[[int], bool] = lambda node_id: False
        self.security: PeerSecurity | None = None
        self._address_of = address_of
        self._client_id = client_id
        self._channels: dict[int, dict[str, PeerChannel]] = {}
        self._closed = False

    def send(
        self, node_id: int, request: object, done: PeerCallback, *, timeout_ms: float, channel: str = REQUESTS
    ) -> Callable[[], None]:
        """See `Peers.send`."""
        address = None if self._closed else self._current_address(node_id)
        if address is None:
            why = "this broker is stopping" if self._closed else "it is not in the cluster"
            handle = self.loop.call_soon(done, PeerUnavailable(f"broker {node_id} can't be asked: {why}"))
            return handle.cancel
        channels = self._channels.setdefault(node_id, {})
        connection = channels.get(channel)
        if connection is None:
            connection = channels[channel] = PeerChannel(self, node_id, address, f"{self._client_id}-{channel}")
        return connection.send(request, done, timeout_ms)

    def forget(self, node_id: int) -> None:
        """See `Peers.forget`."""
        self._drop(node_id, "its connections were closed")

    def refresh(self) -> None:
        """Close the connections to brokers that are gone, moved, or were started again."""
        for node_id in list(self._channels):
            self._current_address(node_id)

    def close(self) -> None:
        """Close all connections. Their requests, and later ones, fail with PeerUnavailable."""
        self._closed = True
        for node_id in list(self._channels):
            self._drop(node_id, "this broker is stopping")

    def close_descriptors(self) -> None:
        """Close this process's copies of the sockets only; see `Server.close_descriptors`."""
        for channels in self._channels.values():
            for connection in channels.values():
                connection.close_descriptor()

    def release(self, connection: BudgetWaiter, counted: CountedBytes) -> None:
        """Release the bytes of a response whose memory was freed; from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nothing waits for memory
            self.loop.call_soon_threadsafe(self.budget.release_request, connection, counted.used)

    def _current_address(self, node_id: int) -> PeerAddress | None:
        address = self._address_of(node_id)
        channels = self._channels.get(node_id)
        if channels and any(connection.address != address for connection in channels.values()):
            self._drop(node_id, "it has left the cluster" if address is None else "it was started again, or moved")
        return address

    def _drop(self, node_id: int, reason: str) -> None:
        for connection in self._channels.pop(node_id, {}).values():
            connection.close(reason)


def peer_address(cluster: ClusterBrokers, node_id: int) -> PeerAddress | None:
    """Return where other brokers reach a broker; None: no such broker or listener."""
    endpoint, broker = cluster.peer_endpoint(node_id), cluster.find(node_id)
    return None if endpoint is None or broker is None else PeerAddress(endpoint.host, endpoint.port, broker.epoch)


def is_leaving(cluster: ClusterBrokers, node_id: int) -> bool:
    """Whether a broker asked to be relieved of its leaderships, or is not registered any more."""
    broker = cluster.find(node_id)
    return broker is None or broker.shutting_down


def response_bytes_max(config: Config) -> int:
    """Return the limit on the length of other brokers' responses: what this broker asks for, or the
    largest batch that a broker accepts, and what is around it.
    """
    return int(max(config["replica.fetch.response.max.bytes"], config["socket.request.max.bytes"])) + OVERHEAD_BYTES
