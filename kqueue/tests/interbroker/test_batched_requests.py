"""Requests that share what waits for one broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.interbroker.batched_requests import BatchedRequests
from kqueue.interbroker.errors import PeerUnavailable
from kqueue.tests.api.cluster_client import broker
from kqueue.tests.tables import for_each


class HeldPeers:
    """`Peers` whose answers the test gives."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any, Callable[[Any], None]]] = []
        self.cancelled = 0

    def send(
        self, node_id: int, request: object, done: Callable[[Any], None], *, timeout_ms: float, channel: str = ""
    ) -> Callable[[], None]:
        self.sent.append((node_id, request, done))

        def cancel() -> None:
            self.cancelled += 1

        return cancel

    def forget(self, node_id: int) -> None:
        pass

    def answer(self, outcome: Any) -> None:
        self.sent.pop(0)[2](outcome)


class World:
    def __init__(self, items_max: int = 3) -> None:
        self.peers = HeldPeers()
        self.cluster = ClusterBrokers(1)
        self.register(2)
        self.register(3)
        self.answers: list[tuple[list[int], Any]] = []
        self.requests = BatchedRequests[int](
            self.peers,
            self.cluster,
            lambda queue: self.take(queue, items_max),
            tuple,
            lambda items, outcome: self.answers.append((items, outcome)),
            "things",
        )

    def take(self, queue: deque[int], items_max: int) -> list[int]:
        return [queue.popleft() for _ in range(min(len(queue), items_max))]

    def register(self, node_id: int, *, fenced: bool = False) -> None:
        self.cluster.apply({str(node_id): broker(node_id, fenced=fenced).to_bytes()})


def test_items_added_during_a_request_share_the_next_one() -> None:
    world = World()
    for item in range(6):
        world.requests.add(2, item)
    world.requests.add(3, 9)
    assert [(node_id, request) for node_id, request, _ in world.peers.sent] == [(2, (0,)), (3, (9,))]
    world.peers.answer("a")
    world.peers.answer("b")
    assert [request for _, request, _ in world.peers.sent] == [(1, 2, 3)]
    world.peers.answer(PeerUnavailable("gone"))
    assert [request for _, request, _ in world.peers.sent] == [(4, 5)], "an error ends one request"
    world.peers.answer("c")
    assert [items for items, _ in world.answers] == [[0], [9], [1, 2, 3], [4, 5]]
    assert not world.requests._queues, "nothing is kept for brokers without requests"


def test_an_answer_may_bring_more() -> None:
    world = World()
    world.requests._answered = lambda items, outcome: world.requests.add(2, items[0] + 1) if items[0] < 3 else None
    world.requests.add(2, 0)
    for _ in range(3):
        world.peers.answer("a")
        assert len(world.peers.sent) == 1
    world.peers.answer("a")
    assert not world.requests._queues


@for_each("is_removed", [True, False])
def test_items_for_a_fenced_broker_fail(is_removed: bool) -> None:
    world = World()
    for item in range(3):
        world.requests.add(2, item)
    world.requests.add(3, 9)
    world.register(2)
    assert not world.answers, "it is still there"
    world.cluster.apply({"2": None}) if is_removed else world.register(2, fenced=True)
    [(items, outcome)] = world.answers
    assert items == [0, 1, 2]
    assert type(outcome) is PeerUnavailable
    assert outcome.sent
    assert world.peers.cancelled == 1
    world.requests.add(2, 7)
    assert world.peers.sent[-1][:2] == (2, (7,)), "it may be back when it is asked"
