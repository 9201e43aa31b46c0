"""Requests to other brokers that hold many items: one request to a broker is under way, and what
comes meanwhile shares the next one. Source: Kafka's InterBrokerSendThread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from kqueue.broker.metadata.brokers import Cluster
from kqueue.interbroker.contract import Peers
from kqueue.interbroker.errors import PeerUnavailable

T = TypeVar("T")
TIMEOUT_MS = 30_000


class _PeerQueue(Generic[T]):
    """The items to be sent to one broker, and those of the last request."""

    __slots__ = ("cancel", "queue", "sent")

    def __init__(self) -> None:
        self.queue: deque[T] = deque()
        self.sent: list[T] = []
        self.cancel: Callable[[], None] | None = None


class BatchedRequests(Generic[T]):
    """Requests of one kind. On the owner thread.

    Args:
        take: removes from a queue, which is not empty, what the next request shall hold; something.
        build: returns the request.
        answered: called once with the items of each request, and the response or a PeerError.
        channel: of their own, so that they do not wait for answers of other kinds.
        timeout_ms: longest wait for a response.
    """

    def __init__(
        self,
        peers: Peers,
        cluster: Cluster,
        take: Callable[[deque[T]], list[T]],
        build: Callable[[list[T]], object],
        answered: Callable[[list[T], Any], None],
        channel: str,
        timeout_ms: float = TIMEOUT_MS,
    ) -> None:
        self._channel = channel
        self._peers = peers
        self._cluster = cluster
        self._take = take
        self._build = build
        self._answered = answered
        self._timeout_ms = timeout_ms
        self._queues: dict[int, _PeerQueue[T]] = {}
        cluster.observe(self._broker_changed)

    def add(self, node_id: int, item: T) -> None:
        """Send an item, now or behind the request that is under way."""
        peer = self._queues.setdefault(node_id, _PeerQueue())
        peer.queue.append(item)
        if peer.cancel is None:
            self._send(node_id, peer)

    def _send(self, node_id: int, peer: _PeerQueue[T]) -> None:
        peer.sent = self._take(peer.queue)
        peer.cancel = self._peers.send(
            node_id,
            self._build(peer.sent),
            partial(self._received, node_id, peer),
            timeout_ms=self._timeout_ms,
            channel=self._channel,
        )

    def _received(self, node_id: int, peer: _PeerQueue[T], outcome: Any) -> None:
        # Before the call: it may add items, and so send the next request itself.
        items, peer.sent, peer.cancel = peer.sent, [], None
        self._answered(items, outcome)
        if peer.queue and peer.cancel is None:
            self._send(node_id, peer)
        elif not peer.queue and peer.cancel is None:
            self._queues.pop(node_id, None)

    def _broker_changed(self, node_id: int) -> None:
        """Fail what waits for a broker that is fenced or gone: others have its partitions now."""
        broker, peer = self._cluster.find(node_id), self._queues.get(node_id)
        if peer is None or (broker is not None and not broker.fenced):
            return
        # Before the calls: items are sent again to the brokers that lead now, and may come back
        # here.
        del self._queues[node_id]
        if peer.cancel is not None:
            peer.cancel()
        items = [*peer.sent, *peer.queue]
        self._answered(items, PeerUnavailable(f"broker {node_id} is fenced", sent=bool(peer.sent)))
