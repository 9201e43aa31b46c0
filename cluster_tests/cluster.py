"""Four brokers as processes, behind a network that can be parted, on disks that can be full."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from cluster_tests.checkers import LeaderSeen
from cluster_tests.network import Network, broker_name
from compat_tests.postgres.server import Server as PostgresServer
from compat_tests.zookeeper.server import Ensemble
from kqueue.client import Client
from kqueue.client.errors import ClientError
from kqueue.demo.broker_processes import ClusterOfProcesses, free_ports, is_in_sync, until

BROKERS = 4
STORE = "store"
DISK_MB = 256
SAMPLE_S = 0.1
END_S = 60.0
# A busy machine may not run a process for a second: it would end shorter sessions.
FAST = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
"""The test settings. Without them the defaults hold: 9 s and 2 s."""
SETTINGS = {
    "replica.fetch.backoff.ms": 200,
    "replica.lag.time.max.ms": 3000,
    "leader.imbalance.check.interval.seconds": 5,
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 1000,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "log.segment.bytes": 1 << 20,
    "log.cleaner.backoff.ms": 1000,
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


UNSYNCED = ("forceSync=no",)
"""For servers of ZooKeeper: no power is cut here, and a busy disk is not to be measured."""


def new_ensemble(folder: Path) -> Ensemble:
    """Three servers of ZooKeeper; `with` starts them."""
    return Ensemble(folder, settings=UNSYNCED)


TIER = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": 300,
    "log.retention.check.interval.ms": 500,
    "log.segment.delete.delay.ms": 500,
}
"""Settings of a cluster with a tier, beside its URL."""
TIERED_TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1 << 14),
    "local.retention.bytes": str(1 << 14),
}
"""Settings of its topics: most of what a round writes is in the tier only at its end."""


class TestedCluster(ClusterOfProcesses):
    """Brokers 1 to 4. All connections to them, and of them to servers of the store, go through
    `network`.

    Args:
        folder: new, for everything.
        ensemble: the store is there; None: it is a SQLite file, unless there is `postgres`.
        settings: beside SETTINGS, e.g. FAST.
        postgres: the store is there.
        has_tier: topics may be tiered, in a folder that no fault concerns.
    Attributes:
        session_s: after which a silent broker is fenced.
    """

    __test__ = False

    def __init__(
        self,
        folder: Path,
        ensemble: Ensemble | None,
        settings: Mapping[str, object],
        postgres: PostgresServer | None = None,
        *,
        has_tier: bool = False,
    ) -> None:
        self.tier_url = (folder / "tier").resolve().as_uri() if has_tier else None
        tier = {"kqueue.tier.url": self.tier_url, **TIER} if has_tier else {}
        super().__init__(folder, {**SETTINGS, **tier, **settings}, BROKERS)
        self.network = Network()
        self.ensemble = ensemble
        self.postgres = postgres
        self.session_s = int(str(settings.get("broker.session.timeout.ms", 9000))) / 1000
        self.disks_are_bounded = False
        self._mounted: list[Path] = []
        ports = iter(free_ports(2 * BROKERS))
        for number, broker in self.brokers.items():
            name = broker_name(number)
            own = {"CLIENTS": next(ports), "BROKERS": next(ports)}
            proxied = {listener: self.network.listen(name, port) for listener, port in own.items()}
            broker.bootstrap = f"127.0.0.1:{proxied['CLIENTS']}"
            broker.settings |= {
                "listeners": ",".join(f"{one}://127.0.0.1:{port}" for one, port in own.items()),
                "advertised.listeners": ",".join(f"{one}://127.0.0.1:{port}" for one, port in proxied.items()),
                "kqueue.cluster.store": self._store(name, folder),
            }

    def _store(self, name: str, folder: Path) -> str:
        if self.postgres is not None:
            port = self.network.listen(STORE, self.postgres.port, name)
            return f"postgresql://kqueue@127.0.0.1:{port}/postgres"
        if self.ensemble is None:
            return f"sqlite:{folder / 'cluster.db'}"
        ports = [self.network.listen(STORE, server.port, name) for server in self.ensemble.servers]
        return "zookeeper:" + ",".join(f"127.0.0.1:{port}" for port in ports) + "/kqueue"

    def __enter__(self) -> TestedCluster:
        self.disks_are_bounded = all(self._mount(broker.data) for broker in self.brokers.values())
        try:
            super().__enter__()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        self._release()

    def others(self, number: int) -> list[int]:
        """All brokers but one."""
        return [one for one in self.brokers if one != number]

    def leaders(self, topic: str, without: int | None = None) -> list[int]:
        """The leader of each partition. Raises: ClientError.

        Args: without: a broker that is not asked: alone, it goes on with what it knew.
        """
        asked = ",".join(broker.bootstrap for number, broker in self.brokers.items() if number != without)
        with self.client(asked) as client:
            return [one.leader for one in client.metadata([topic]).topics[topic].partitions.values()]

    def await_all(self, timeout_s: float = 120.0) -> float:
        """Return once all brokers are in and all replicas of all topics are in sync.

        Returns: seconds it took. Raises: BrokerFailed: they are not.
        """
        with self.client() as client:

            def holds() -> bool:
                metadata = client.metadata(None)
                return metadata.brokers.keys() == self.brokers.keys() and is_in_sync(client, list(metadata.topics))

            return until("all brokers are in, and all replicas in sync", holds, timeout_s)

    @contextlib.contextmanager
    def full_disk(self, number: int) -> Iterator[None]:
        """Leave no byte on the disk of a broker."""
        filler = self.brokers[number].data / "filler"
        with filler.open("wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while file.write(bytes(1 << 16)):
                    pass
            with contextlib.suppress(OSError):
                while file.write(bytes(1)):
                    pass
        try:
            yield
        finally:
            filler.unlink()

    def _mount(self, folder: Path) -> bool:
        """Put a small disk there. Returns: whether this process may do so."""
        folder.mkdir(parents=True, exist_ok=True)
        options = f"size={DISK_MB}m"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return False
        self._mounted.append(folder)
        return True

    def _release(self) -> None:
        self.network.close()
        for folder in self._mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        self._mounted.clear()


class LeaderLog:
    """Asks every broker again and again who leads what. `with` begins and ends it.

    Attributes: seen: what they answered, in order.
    """

    def __init__(self, cluster: TestedCluster) -> None:
        self.seen: list[LeaderSeen] = []
        self._cluster = cluster
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(number,), name=f"leaders of {number}")
            for number in cluster.brokers
        ]

    def __enter__(self) -> LeaderLog:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(END_S)
            assert not thread.is_alive(), f"{thread.name} does not end"

    def _ask(self, number: int) -> None:
        address = self._cluster.brokers[number].bootstrap
        while not self._ended.wait(SAMPLE_S):
            # A client of one request knows no other broker, so this one answers.
            with contextlib.suppress(ClientError), Client(address, timeout_ms=1000, request_timeout_ms=1000) as client:
                for name, topic in client.metadata(None).topics.items():
                    for index, one in topic.partitions.items():
                        self.seen.append(LeaderSeen(number, f"{name}-{index}", one.leader_epoch, one.leader))


def now_s() -> float:
    """The clock of all histories."""
    return time.monotonic()
