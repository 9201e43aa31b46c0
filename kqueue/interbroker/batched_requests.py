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


class _Node(Generic[T]):
    """What is to be sent to one broker, and what was sent last."""

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
        self._nodes: dict[int, _Node[T]] = {}
        cluster.observe(self._broker_changed)

    def add(self, node_id: int, item: T) -> None:
        """Send an item, now or behind the request that is under way."""
        node = self._nodes.setdefault(node_id, _Node())
        node.queue.append(item)
        if node.cancel is None:
            self._send(node_id, node)

    def _send(self, node_id: int, node: _Node[T]) -> None:
        node.sent = self._take(node.queue)
        node.cancel = self._peers.send(
            node_id,
            self._build(node.sent),
            partial(self._received, node_id, node),
            timeout_ms=self._timeout_ms,
            channel=self._channel,
        )

    def _received(self, node_id: int, node: _Node[T], outcome: Any) -> None:
        # Before the call: it may add items, and so send the next request itself.
        items, node.sent, node.cancel = node.sent, [], None
        self._answered(items, outcome)
        if node.queue and node.cancel is None:
            self._send(node_id, node)
        elif not node.queue and node.cancel is None:
            self._nodes.pop(node_id, None)

    def _broker_changed(self, node_id: int) -> None:
        """Fail what waits for a broker that is fenced or gone: others have its partitions now."""
        broker, node = self._cluster.find(node_id), self._nodes.get(node_id)
        if node is None or (broker is not None and not broker.fenced):
            return
        del self._nodes[node_id]
        if node.cancel is not None:
            node.cancel()
        items = [*node.sent, *node.queue]
        self._answered(items, PeerUnavailable(f"broker {node_id} is fenced", sent=bool(node.sent)))
