"""Several brokers over one metadata store, whose fetch loops copy without sockets."""

from __future__ import annotations

from collections.abc import Mapping

from kqueue.broker.topics.topics import NewTopic
from kqueue.interbroker.replica_fetchers import ReplicaFetchers
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replication import log_bytes
from kqueue.tests.interbroker.simulated_peers import SimulatedPeers

BACKOFF_MS = 200
SETTINGS = {"replica.fetch.backoff.ms": BACKOFF_MS}


class FetchingMembers(Members):
    """`Members` whose followers fetch. `peers`: by node id, how each reaches the others."""

    def __init__(self, count: int = 3, settings: Mapping[str, object] | None = None) -> None:
        self.clients: dict[int, SimulatedClient] = {}
        self.peers: dict[int, SimulatedPeers] = {}
        self.fetchers: dict[int, ReplicaFetchers] = {}
        super().__init__(count, {**SETTINGS, **(settings or {})})
        for node in self.sims:
            self.join(node)

    def join(self, node: int) -> None:
        """Let a started broker reach the others, and follow their partitions."""
        broker = self.sims[node].broker
        self.clients[node] = SimulatedClient(sim=self.sims[node])
        self.peers[node] = SimulatedPeers(self.clients)  # type: ignore[arg-type]
        self.fetchers[node] = ReplicaFetchers(
            broker.config,
            broker.scheduler,
            broker.metadata.cluster,
            broker.topics,
            broker.replicas.host,
            self.peers[node],
        )
        for topic in broker.topics:
            for partition in topic.partitions:
                if partition.has_replica and not partition.is_leader:
                    self.fetchers[node].became_follower(partition)

    def topic(self, name: str, *replicas: list[int], **configs: str) -> None:
        """Create a topic with these replicas, by partition."""
        new = NewTopic(name, assignments=dict(enumerate(replicas)), configs=configs)
        self.result(self.sims[replicas[0][0]].broker.topics.create(new))

    def settle(self) -> None:
        busy = True
        while busy:
            super().settle()
            busy = sum(peers.deliver() for peers in self.peers.values()) > 0

    def advance(self, ms: float) -> None:
        """Let time pass, at most 100 ms between two deliveries."""
        while ms > 0:
            self.clock.advance(min(ms, 100))
            for sim in self.sims.values():
                sim.broker.scheduler.timers.run_due(self.clock.monotonic_ms())
            self.settle()
            ms -= 100

    def logs(self, name: str = "t", index: int = 0, *nodes: int) -> list[bytes]:
        """Return the bytes of each replica's log."""
        return [log_bytes(self.partition(node, name, index)) for node in nodes or self.sims]
