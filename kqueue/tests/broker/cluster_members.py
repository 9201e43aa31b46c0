"""Members of a cluster without logs and topics: registration and controller over one store."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from kqueue.base.config import Config
from kqueue.base.errors import StorageFailed
from kqueue.base.timers import Timers
from kqueue.broker.cluster.controller import Controller
from kqueue.broker.cluster.folder_identity import FolderIdentity
from kqueue.broker.cluster.registration import BrokerProcess, LogsFound, Registration
from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.broker.metadata.cluster_cache import ClusterMetadata
from kqueue.broker.purgatory import Purgatory
from kqueue.log.folders.registration_mark import RegistrationMark
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import ClusterStore
from kqueue.replication.config import MemberConfig
from kqueue.replication.registrations import (
    BROKERS_PREFIX,
    TOPICS_PREFIX,
    BrokerRegistration,
    Endpoint,
    PartitionRegistration,
    TopicRegistration,
)
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.simulation import CATALOG
from kqueue.testing.stepped_jobs import SteppedJobs

TOPIC_ID = bytes(range(16))
CLEAN = LogsFound(("folder",), (-1,), is_intact=True, flushes_first=True)


class Folder:
    """The mark of a broker's data folder. `error`: of each write, where it is not None."""

    def __init__(self, mark: RegistrationMark | None = None) -> None:
        self.mark = mark
        self.error: StorageFailed | None = None
        self.written: list[RegistrationMark] = []

    @property
    def marks(self) -> dict[str, RegistrationMark]:
        return {"folder": self.mark} if self.mark is not None else {}

    def write(self, mark: RegistrationMark) -> None:
        if self.error is not None:
            raise self.error
        self.mark = mark
        self.written.append(mark)

    def copy(self) -> Folder:
        return Folder(self.mark)


class Member:
    """One of them. `is_paused`: its timers and jobs do not run."""

    def __init__(
        self,
        world: World,
        node_id: int,
        incarnation: str | None = None,
        store: ClusterStore | None = None,
        settings: Mapping[str, object] | None = None,
        folder: Folder | None = None,
    ) -> None:
        self.world = world
        self.folder = folder = folder or world.folders.setdefault(node_id, Folder())
        self.is_paused = False
        self.appended = 0
        self.timers = Timers(world.clock)
        self.purgatory = Purgatory(self.timers, world.clock)
        self.jobs = SteppedJobs()
        config = self.config = Config(CATALOG, {"node.id": node_id, **(settings or {})})
        self.store = store or world.store
        self.cluster = ClusterBrokers(node_id)
        self.metadata = ClusterMetadata(self.store, self.jobs, self.purgatory, self.timers, world.clock)
        self.registration = Registration(
            self.store, self.metadata, self.cluster, MemberConfig.of(config), self.jobs,
            FolderIdentity(node_id, self.metadata, folder.marks, folder.write, f"folder of {node_id}"),
            BrokerProcess(
                incarnation or f"process-{node_id}-{random.random()}",
                None,
                lambda: {"A": Endpoint(f"host{node_id}", 9092)},
                lambda: self.appended,
            ),
        )  # fmt: skip
        self.controller = Controller(config, self.store, self.metadata, self.cluster, self.registration, self.jobs)
        self.metadata.observe(BROKERS_PREFIX, self.cluster.apply)

    def begin(self) -> Member:
        self.metadata.load()
        self.cluster.apply(dict(self.metadata.with_prefix(BROKERS_PREFIX)))
        self.registration.begin()
        self.metadata.watch(lambda call: call())
        self.registration.start(self.timers)
        self.controller.start(self.timers)
        return self

    def start(self, logs: LogsFound = CLEAN) -> Member:
        self.begin()
        self.registration.announce(logs)
        self.world.settle()
        return self

    @property
    def record(self) -> BrokerRegistration:
        return self.world.broker(self.cluster.node_id)

    def run(self) -> bool:
        return not self.is_paused and bool(self.jobs.run_all() or self.purgatory.run_ready())


class World:
    """A store in memory, its clock and the members that share it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.members: list[Member] = []
        self.folders: dict[int, Folder] = {}

    def member(
        self,
        node_id: int,
        incarnation: str | None = None,
        store: ClusterStore | None = None,
        settings: Mapping[str, object] | None = None,
        folder: Folder | None = None,
    ) -> Member:
        member = Member(self, node_id, incarnation, store, settings, folder)
        self.members.append(member)
        return member

    def started(self, *node_ids: int) -> list[Member]:
        return [self.member(node_id).start() for node_id in node_ids]

    def settle(self) -> None:
        busy = True
        while busy:
            busy = False
            for member in self.members:
                busy |= member.run()

    def advance(self, ms: float) -> None:
        """Advance in steps of at most half a second; paused members sleep."""
        until = self.clock.monotonic_ms() + ms
        while self.clock.monotonic_ms() < until:
            self.clock.advance(min(500, until - self.clock.monotonic_ms()))
            for member in self.members:
                if not member.is_paused:
                    member.timers.run_due(self.clock.monotonic_ms())
            self.settle()

    def broker(self, node_id: int) -> BrokerRegistration:
        """The record in the store."""
        return BrokerRegistration.from_bytes(node_id, self.store.read(BROKERS_PREFIX)[f"/brokers/{node_id}"].value)

    def put_topic(self, name: str, *partitions: Sequence[int], **configs: str) -> None:
        """Create a topic as a broker does; each partition is led by its first replica."""
        registrations = tuple(
            PartitionRegistration(tuple(replicas), tuple(replicas), replicas[0]) for replicas in partitions
        )
        record = TopicRegistration(TOPIC_ID, configs, registrations).to_bytes()
        self.store.commit({TOPICS_PREFIX + name: None}, {TOPICS_PREFIX + name: record}, ())
        self.settle()

    def topic(self, name: str) -> tuple[PartitionRegistration, ...]:
        """The partitions in the store."""
        record = self.store.read(TOPICS_PREFIX)[TOPICS_PREFIX + name].value
        return TopicRegistration.from_bytes(name, record).partitions

    @property
    def controllers(self) -> list[int]:
        return [member.cluster.node_id for member in self.members if member.controller.term is not None]
