"""Clusters of three brokers that scenarios run against: in this process, or in a process each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import kqueue
from compat_tests.clients import protocol_client, security
from compat_tests.clients.adapters.contract import Place
from compat_tests.kafka.node import free_ports
from compat_tests.kafka.serving import Process
from compat_tests.waits import eventually
from kqueue.base.clock import SystemClock
from kqueue.base.errors import KqueueError
from kqueue.client import TopicPartition
from kqueue.client.metadata import NO_LEADER, PartitionMetadata
from kqueue.metadata.memory import MemoryStore
from kqueue.replication.config import RACK_AWARE_SELECTOR

MEMBERS = 3
SESSION_MS = 1500
RETRY_S = 0.7
"""Longer than clients wait before they try again. A snapshot of producers has the last batch of
each, as Kafka's: what was sent before that one and not confirmed must be sent again to a broker
that did not restart since.
"""

SETTINGS: Mapping[str, object] = {
    "default.replication.factor": MEMBERS,
    "min.insync.replicas": 2,
    "replica.fetch.wait.max.ms": 200,
    "replica.fetch.backoff.ms": 50,
    "replica.selector.class": RACK_AWARE_SELECTOR,
}


def wait_in_sync(addresses: Sequence[str]) -> None:
    """Return once each of these brokers shows all of them, and of all partitions a leader and all
    replicas in sync: each has a view of its own.
    """
    for address in addresses:
        eventually(lambda address=address: _is_in_sync(address, len(addresses)), f"{address} shows all in sync")  # type: ignore[misc]


def _is_in_sync(address: str, members: int) -> bool:
    try:
        with protocol_client.asking(address) as client:
            metadata = client.metadata()
    except KqueueError:
        return False
    if len(metadata.brokers) != members:
        return False
    rows = [row for topic in metadata.topics.values() for row in topic.partitions.values()]
    alive = [metadata.brokers.keys() & row.replicas for row in rows]
    return all(row.leader in live == set(row.in_sync) for row, live in zip(rows, alive, strict=True) if live)


class ClusterInProcess:
    """A cluster whose brokers run in this process, and share a metadata store in memory."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self._store = MemoryStore(SystemClock())
        self._stack = contextlib.ExitStack()
        own = {**SETTINGS, **settings, **security.broker_settings()}
        address = f"{security.protocol().name}://127.0.0.1:0"
        self.brokers = [
            kqueue.Broker(
                folder / f"broker-{node}",
                settings={**own, "node.id": node, "broker.rack": f"rack-{node}", "listeners": address},
                cluster=self._store,
            )
            for node in range(MEMBERS)
        ]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(self._addresses)

    def __enter__(self) -> ClusterInProcess:
        self._stack.callback(self._store.close)
        for broker in self.brokers:
            self._stack.enter_context(broker)
        self._addresses = [broker.bootstrap for broker in self.brokers]
        security.grant(self._addresses)
        wait_in_sync(self._addresses)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def restart(self) -> None:
        """Restart each broker once replicas are in sync and clients had time to try again."""
        for broker in self.brokers:
            broker.restart()
            wait_in_sync(self._addresses)
            time.sleep(RETRY_S)


class ClusterOfProcesses:
    """A cluster whose brokers are processes; each keeps its port. Its metadata is in SQLite."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        shared = {**SETTINGS, "broker.session.timeout.ms": SESSION_MS, "broker.heartbeat.interval.ms": 200, **settings}
        shared |= security.broker_settings()
        named = {name.replace(".", "_"): value for name, value in shared.items()}
        self._addresses = [f"127.0.0.1:{port}" for port in free_ports(MEMBERS)]
        self.processes = [
            Process(
                folder / f"data-{node}",
                folder / f"broker-{node}.log",
                node_id=node,
                broker_rack=f"rack-{node}",
                listeners=f"{security.protocol().name}://{address}",
                kqueue_cluster_store=f"sqlite:{folder / 'cluster.db'}",
                **named,
            )
            for node, address in enumerate(self._addresses)
        ]
        self._turn = 0

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, also of those that do not run."""
        return ",".join(self._addresses)

    def __enter__(self) -> ClusterOfProcesses:
        with contextlib.ExitStack() as stack:
            for process in self.processes:
                stack.enter_context(process)
            security.grant(self._addresses)
            wait_in_sync(self._addresses)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def kill(self, node: int) -> None:
        """End a broker as kill -9 does."""
        self.processes[node].kill()

    def stop(self, node: int) -> None:
        """End a broker as TERM does: its partitions move to other leaders before."""
        self.processes[node].__exit__()

    def start(self, node: int) -> None:
        """Start a broker again; return once it shows all replicas of running brokers in sync."""
        self.processes[node].__enter__()
        eventually(lambda: _is_in_sync(self._addresses[node], self._running), f"broker {node} is in sync")

    @property
    def _running(self) -> int:
        return sum(process.is_running for process in self.processes)

    def restore(self) -> None:
        """Start the brokers that do not run; return once all replicas are in sync."""
        for process in self.processes:
            if not process.is_running:
                process.__enter__()
        wait_in_sync(self._addresses)

    def address(self, node: int) -> str:
        """Return the address of one broker."""
        return self._addresses[node]

    def crash(self) -> None:
        """Kill the next broker, and start it once others lead its partitions; return when all
        replicas are in sync.
        """
        node, self._turn = self._turn, (self._turn + 1) % MEMBERS
        self.kill(node)
        for other in set(range(MEMBERS)) - {node}:
            eventually(lambda other=other: not self._leads(node, by=other), f"broker {node} is relieved")  # type: ignore[misc]
        self.start(node)

    def _leads(self, node: int, *, by: int) -> bool:
        """Return whether a broker leads any partition as another one shows it."""
        with protocol_client.asking(self._addresses[by]) as client:
            topics = client.metadata().topics.values()
        return any(row.leader in (node, NO_LEADER) for topic in topics for row in topic.partitions.values())

    def describe(self, place: Place, *, by: int | None = None) -> PartitionMetadata:
        """Return a partition as the brokers show it, or one of them."""
        with protocol_client.asking(self.bootstrap if by is None else self._addresses[by]) as client:
            return client.metadata([place.topic]).topics[place.topic].partitions[place.partition]

    def leader(self, place: Place) -> int:
        """Return the node id of a partition's leader."""
        return self.describe(place).leader

    def move(self, place: Place, *replicas: int) -> None:
        """Reassign a partition; return once each broker shows that the first replica leads it."""
        wanted = TopicPartition(*place)
        with protocol_client.asking(self.bootstrap) as client:
            client.cluster.reassign({wanted: replicas})
            eventually(lambda: not client.cluster.reassignments([wanted]), f"{place} moves")
            client.cluster.elect_leaders([wanted])
        for node in range(MEMBERS):
            eventually(
                lambda node=node: self.describe(place, by=node).leader == replicas[0],  # type: ignore[misc]
                f"{place} is led by {replicas[0]}",
            )
