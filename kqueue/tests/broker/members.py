"""Several brokers over one metadata store, without a controller: tests write the registrations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from kqueue.base.promise import Promise
from kqueue.broker.broker import Broker
from kqueue.broker.replicas.partition import Partition
from kqueue.metadata.memory import MemoryStore
from kqueue.replication.registrations import (
    BROKERS_PREFIX,
    TOPICS_PREFIX,
    BrokerRegistration,
    PartitionRegistration,
    TopicRegistration,
)
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.simulation import Simulation

T = TypeVar("T")


class Members:
    """Brokers 1 to `count`, each with storage and jobs of its own, on one clock.

    Args: racks: by node id.
    """

    def __init__(
        self,
        count: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        store: MemoryStore | None = None,
        storages: Mapping[int, Storage] | None = None,
        racks: Mapping[int, str] | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.store = store or MemoryStore(self.clock)
        self.settings = dict(settings or {})
        self.sims: dict[int, Simulation] = {}
        self._storages = dict(storages or {})
        for node in range(1, count + 1):
            self.register(node, rack=(racks or {}).get(node))
        for node in range(1, count + 1):
            self.start(node)
        self.settle()

    def __getitem__(self, node: int) -> Simulation:
        return self.sims[node]

    def register(self, node: int, *, epoch: int = 1, fenced: bool = False, rack: str | None = None) -> None:
        """Write the record of a broker."""
        record = BrokerRegistration(node, epoch, f"life {epoch} of {node}", {}, fenced=fenced, rack=rack)
        self.store.commit({}, {f"{BROKERS_PREFIX}{node}": record.to_bytes()}, [])

    def start(self, node: int, *, recovers: bool = True, may_lead: bool = True, **settings: object) -> Simulation:
        """Start a broker that has stopped, or was killed, on its storage.

        Args: may_lead: False: as one that is fenced; `let_lead` ends it.
        """

        def prepare(broker: Broker) -> None:
            broker.replicas.may_lead = lambda: may_lead

        storage = self._storages.setdefault(node, MemoryStorage(self.clock))
        own: dict[str, object] = {"node.id": node, "kqueue.cluster.store": "sqlite:shared", **self.settings, **settings}
        self.sims[node] = Simulation(
            own, storage=storage, store=self.store, clock=self.clock, recovers=recovers, before_start=prepare
        )
        return self.sims[node]

    def let_lead(self, node: int, may_lead: bool = True) -> None:
        """Unfence a broker, or fence it, as far as it knows."""
        replicas = self.sims[node].broker.replicas
        replicas.may_lead = lambda: may_lead
        replicas.review_leaders()

    def kill(self, node: int) -> None:
        """End a broker without a stop; its disk keeps all that was written."""
        for folder in self.sims.pop(node).logs._folders:
            folder._lock.release()

    def settle(self) -> None:
        """Run all brokers until nothing is left to do."""
        while any(sim.settle_once() for sim in self.sims.values()):
            pass

    def result(self, promise: Promise[T]) -> T:
        """Run all brokers, and return the result of the promise. Raises what it failed with."""
        self.settle()
        return promise.result()

    def partition(self, node: int, topic: str = "t", index: int = 0) -> Partition:
        """Return a partition as the broker has it."""
        return self.sims[node].broker.topics.partition(topic, index)

    def registration(self, topic: str = "t") -> TopicRegistration:
        """Return what the store has of a topic."""
        key = TOPICS_PREFIX + topic
        return TopicRegistration.from_bytes(topic, self.store.read(key)[key].value)

    def write(
        self, change: Callable[[PartitionRegistration], PartitionRegistration], topic: str = "t", index: int = 0
    ) -> PartitionRegistration:
        """Change a partition's registration in the store, with the next partition epoch, and let
        all brokers see it.
        """
        former = self.registration(topic)
        partitions = list(former.partitions)
        changed = change(partitions[index])
        partitions[index] = changed._replace(partition_epoch=partitions[index].partition_epoch + 1)
        self.store.commit({}, {TOPICS_PREFIX + topic: former._replace(partitions=tuple(partitions)).to_bytes()}, [])
        self.settle()
        return partitions[index]
