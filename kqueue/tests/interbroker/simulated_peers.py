"""Brokers of a cluster that reach each other without sockets, through the bytes of requests and
responses. The test applies the registrations of partitions, as the metadata store would say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kqueue.api import handler_table
from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.interbroker.contract import REQUESTS
from kqueue.interbroker.coordination import connect_coordinators
from kqueue.interbroker.errors import PeerUnavailable
from kqueue.replication.registrations import PartitionRegistration
from kqueue.tests.api.cluster_client import broker
from kqueue.tests.api.harness import PendingRequest, SimulatedClient
from kqueue.wire.apis import BY_MODULE


class _Sent:
    def __init__(self, node_id: int, request: Any, done: Callable[[Any], None]) -> None:
        self.node_id = node_id
        self.request = request
        self.done: Callable[[Any], None] | None = done
        self.pending: PendingRequest | None = None

    def cancel(self) -> None:
        self.done = None


class SimulatedPeers:
    """The `Peers` of one broker. `down`: brokers that are not reached."""

    def __init__(self, members: Mapping[int, Member]) -> None:
        self.down: set[int] = set()
        self.requests: list[Any] = []
        self._members = members
        self._sent: list[_Sent] = []

    def send(
        self,
        node_id: int,
        request: object,
        done: Callable[[Any], None],
        *,
        timeout_ms: float,
        channel: str = REQUESTS,
    ) -> Callable[[], None]:
        sent = _Sent(node_id, request, done)
        self._sent.append(sent)
        self.requests.append(request)
        return sent.cancel

    def forget(self, node_id: int) -> None:
        pass

    def deliver(self) -> int:
        """Deliver requests and responses; return how many."""
        sent, self._sent = self._sent, []
        count = 0
        for each in sent:
            if each.done is None:
                continue
            if each.node_id in self.down:
                each.done(PeerUnavailable(f"broker {each.node_id} is down", sent=each.pending is not None))
                count += 1
                continue
            if each.pending is None:
                each.pending = self._members[each.node_id].start(each.request, newest_version(each.request))
                count += 1
            if each.pending.response is None:
                self._sent.append(each)
            else:
                each.done(each.pending.response)
                count += 1
        return count


def newest_version(request: Any) -> int:
    """Return the highest version of a request that is served."""
    api = BY_MODULE[type(request).__module__.rpartition(".")[2]]
    return handler_table.lookup(api.key, api.versions[1]).versions[1]


ONE_IN_SYNC = {"transaction.state.log.min.isr": 1, "share.coordinator.state.topic.min.isr": 1}
"""Nobody follows the leaders here, so each is its own in-sync set."""


class Member(SimulatedClient):
    """A broker of the cluster, and its client."""

    def __init__(self, node_id: int, members: Mapping[int, Member], settings: Mapping[str, object]) -> None:
        super().__init__({"node.id": node_id, **ONE_IN_SYNC, **settings})
        self.node_id = node_id
        self.peers = SimulatedPeers(members)
        self.cluster = ClusterBrokers(node_id)
        self.sim.broker.metadata.cluster = self.sim.broker.replicas.host.cluster = self.cluster
        self.sim.broker.follow_leaders()
        connect_coordinators(self.sim.broker, self.peers)


class SimulatedCluster:
    """Brokers 1 to `count`. Every topic is known to each of them."""

    def __init__(self, count: int = 2, settings: Mapping[str, object] | None = None) -> None:
        self.members: dict[int, Member] = {}
        self._epoch = 0
        for node_id in range(1, count + 1):
            self.members[node_id] = Member(node_id, self.members, settings or {})
        self.register(*self.members)

    def register(self, *node_ids: int, fenced: bool = False) -> None:
        """Let brokers register, or be fenced."""
        records = {str(id): broker(id, fenced=fenced).to_bytes() for id in node_ids}
        for member in self.members.values():
            member.cluster.apply(records)

    def create(self, name: str, *leaders: int) -> None:
        """Create a topic, of one partition per leader."""
        for member in self.members.values():
            topics = member.sim.broker.topics
            if name.startswith("__"):
                member.sim.result(topics.create_on_demand(name))
            else:
                member.sim.topic(name, len(leaders))
        ids = {member.sim.broker.topics.get(name).id for member in self.members.values()}
        assert len(ids) == 1, "all brokers draw the same ids until the first request"
        for index, leader in enumerate(leaders):
            self.lead(name, index, leader)

    def lead(self, name: str, index: int, leader: int) -> None:
        """Let a broker lead a partition in a new epoch; its records do not move."""
        self._epoch += 1
        replicas = tuple(self.members)
        registration = PartitionRegistration(replicas, (leader,), leader, self._epoch, self._epoch)
        for member in self.members.values():
            member.sim.broker.topics.partition(name, index).apply(registration)
        self.settle()

    def settle(self) -> None:
        """Run and deliver all that is due."""
        busy = True
        while busy:
            for member in self.members.values():
                member.sim.settle()
            busy = sum(member.peers.deliver() for member in self.members.values()) > 0

    def advance(self, ms: float) -> None:
        """Let time pass, at most 100 ms between two deliveries."""
        while ms > 0:
            for member in self.members.values():
                member.sim.advance(min(ms, 100))
            self.settle()
            ms -= 100

    def ask(self, node_id: int, request: Any, version: int) -> Any:
        """Send a client's request to a broker; return its response, None: it waits."""
        started = self.members[node_id].start(request, version)
        self.settle()
        return started.response
