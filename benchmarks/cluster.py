"""`python -m benchmarks.cluster [--partitions N]`: what an idle cluster of three brokers costs,
and how long it is without leaders after one was killed, or hangs.

Three `kqueue serve` on this machine, with the metadata store sqlite: between them, and all their
settings as shipped. They share the machine's cores with the client.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks import frames, loads
from benchmarks.partitions import Watcher
from benchmarks.results import Figure, Row
from benchmarks.served import OwnBroker, Served, temporary_folder
from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.client.errors import ClientError
from kqueue.client.metadata import NO_LEADER, TopicMetadata

BROKERS = 3
PARTITIONS = 3_000
IDLE_S = 15.0
SETTLE_S = 3.0
READY_TIMEOUT_S = 180.0
QUIET_TIMEOUT_S = 60.0
IDLE_CORE_PERCENT_MAX = 10
FAILOVER_S_MAX = 5
SESSION_TIMEOUT_S = 9
SMALL = frames.batch(1, loads.RECORD[:100])
TOPIC, WATCHED = "many", "watched"


class ServedCluster(ABC):
    """Three brokers of a cluster, whose data go when it ends."""

    def __init__(self) -> None:
        self._cleanup = ExitStack()
        with self._cleanup as cleanup:
            self.brokers = dict(self._start(cleanup))
            self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers.values())
            self._wait_for_all()
            self._cleanup = cleanup.pop_all()

    @abstractmethod
    def _start(self, cleanup: ExitStack) -> Iterator[tuple[int, Served]]:
        """Start the brokers, and yield each with its node id; `cleanup` stops them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def create(self, name: str, partitions: int, replicas: int = BROKERS) -> None:
        """Create a topic, and wait until all its replicas are in sync."""
        self.create_all([NewTopic(name, partitions, replicas)])

    def create_all(self, topics: list[NewTopic]) -> None:
        with Client(self.bootstrap, timeout_ms=int(READY_TIMEOUT_S * 1000)) as client:
            client.create_topics(topics)
            names = [topic.name for topic in topics]
            _until(lambda: all(_is_in_sync(topic) for topic in client.metadata(names).topics.values()))

    def led_by(self, node: int, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic that a broker leads."""
        with Client(self.bootstrap) as client:
            metadata = client.metadata([topic]).topics[topic]
        return [TopicPartition(topic, index) for index, one in metadata.partitions.items() if one.leader == node]

    def leader(self, topic: str) -> int:
        """Return the broker that leads the one partition of a topic."""
        return next(node for node in self.brokers if self.led_by(node, topic))

    def wait_in_sync(self, topic: str) -> None:
        """Wait until all replicas of a topic are in sync."""
        with Client(self.bootstrap, timeout_ms=int(READY_TIMEOUT_S * 1000)) as client:
            _until(lambda: _is_in_sync(client.metadata([topic]).topics[topic]))

    def _wait_for_all(self) -> None:
        with Client(self.bootstrap) as client:
            _until(lambda: len(client.metadata([]).brokers) == BROKERS)


class OwnCluster(ServedCluster):
    """Three `kqueue serve`. `flush`: kafka or group."""

    def __init__(self, flush: str) -> None:
        self._flush = flush
        self.own: dict[int, OwnBroker] = {}
        super().__init__()

    def _start(self, cleanup: ExitStack) -> Iterator[tuple[int, Served]]:
        folder = temporary_folder()
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        for node in range(BROKERS):
            more = {"node.id": str(node), "kqueue.cluster.store": f"sqlite:{folder / 'cluster.db'}"}
            self.own[node] = cleanup.enter_context(OwnBroker(self._flush, more=more))
            yield node, self.own[node]


class Failover(NamedTuple):
    """Seconds from the kill until all partitions have a leader, and until records were stored in
    all, and read from all; the longest wait of another client of a broker that goes on. `led`: how
    many partitions.
    """

    led: int

    leaders_s: float
    produced_s: float
    fetched_s: float
    wait_ms: float


def _is_in_sync(topic: TopicMetadata) -> bool:
    return all(one.leader >= 0 and len(one.in_sync) == len(one.replicas) for one in topic.partitions.values())


def _until(holds: Callable[[], bool], pause_s: float = 0.1) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        with contextlib.suppress(ClientError):
            if holds():
                return
        if time.monotonic() > deadline:
            raise RuntimeError("the cluster was not ready in time")
        time.sleep(pause_s)


# --- many partitions


def busiest_percent(cluster: OwnCluster, seconds: float) -> float:
    """Return how much of a core the busiest broker uses for some seconds."""
    before = {node: broker.cpu_s() for node, broker in cluster.brokers.items()}
    time.sleep(seconds)
    return max(broker.cpu_s() - before[node] for node, broker in cluster.brokers.items()) / seconds * 100


def wait_until_quiet(cluster: OwnCluster) -> None:
    """Wait until all logs of a new topic are open: they are opened for 5 ms in each turn."""
    deadline = time.monotonic() + QUIET_TIMEOUT_S
    while busiest_percent(cluster, SETTLE_S) > IDLE_CORE_PERCENT_MAX:
        if time.monotonic() > deadline:
            return  # the row says how busy they are


def memory_mb(cluster: OwnCluster) -> float:
    """Return the memory of the broker that has most."""
    return max(broker.memory_bytes() for broker in cluster.brokers.values()) / 1e6


def fail_over(cluster: OwnCluster, victim: int, end: Callable[[OwnBroker], None]) -> Failover:
    """End a broker and wait for what it led."""
    led = cluster.led_by(victim, TOPIC)
    survivors = {node: broker for node, broker in cluster.brokers.items() if node != victim}
    watched = next(broker for broker in survivors.values())
    with Client(cluster.bootstrap, timeout_ms=int(READY_TIMEOUT_S * 1000)) as client:
        client.produce(dict.fromkeys(led, SMALL), repeatable=True)
        seconds: dict[str, float] = {}

        def wait(name: str, holds: Callable[[Client], bool]) -> threading.Thread:
            def run() -> None:
                addresses = ",".join(broker.bootstrap for broker in survivors.values())
                with Client(addresses, timeout_ms=int(READY_TIMEOUT_S * 1000)) as own:
                    _until(lambda: holds(own))
                seconds[name] = time.monotonic() - killed

            return threading.Thread(target=run)

        with Watcher(watched.bootstrap, WATCHED) as watcher:
            time.sleep(1)
            began = time.time()
            killed = time.monotonic()
            end(cluster.own[victim])
            threads = [
                wait("leaders", lambda own: _are_led_without(own, led, victim)),
                wait("produced", lambda own: len(own.produce(dict.fromkeys(led, SMALL), repeatable=True)) == len(led)),
                wait("fetched", lambda own: _reads_all(own, led)),
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            time.sleep(SETTLE_S)
        wait_ms = watcher.longest_ms(began, time.time())
    return Failover(len(led), seconds["leaders"], seconds["produced"], seconds["fetched"], wait_ms)


def _are_led_without(client: Client, partitions: list[TopicPartition], victim: int) -> bool:
    metadata = client.metadata([TOPIC]).topics[TOPIC].partitions
    return all(metadata[each.partition].leader not in (NO_LEADER, victim) for each in partitions)


def _reads_all(client: Client, partitions: list[TopicPartition]) -> bool:
    left = dict.fromkeys(partitions, 0)
    while left:
        for place, fetched in client.fetch(left).items():
            if len(fetched.records):
                left.pop(place, None)
    return True


def rows(count: int = PARTITIONS) -> Iterator[Row]:
    """Yield the rows of an idle cluster, and of a failover."""
    with OwnCluster("group") as cluster:
        empty_mb = memory_mb(cluster)
        topics = [NewTopic(f"few-{number}", BROKERS, BROKERS) for number in range(count // BROKERS)]
        began = time.monotonic()
        cluster.create_all(topics)
        yield _idle_row(cluster, f"{len(topics)} topics of {BROKERS} partitions", empty_mb, time.monotonic() - began)
    with OwnCluster("group") as cluster:
        empty_mb = memory_mb(cluster)
        cluster.create(WATCHED, 1, 1)
        began = time.monotonic()
        cluster.create(TOPIC, count)
        yield _idle_row(cluster, f"one topic of {count} partitions", empty_mb, time.monotonic() - began)
        watched = cluster.leader(WATCHED)
        hung, killed = (node for node in cluster.brokers if node != watched)
        yield _failover_row("SIGSTOP", fail_over(cluster, hung, _pause), SESSION_TIMEOUT_S)
        os.kill(cluster.brokers[hung].pid or 0, signal.SIGCONT)
        cluster.wait_in_sync(TOPIC)
        yield _failover_row("kill -9", fail_over(cluster, killed, OwnBroker.kill), 0)


def _pause(broker: OwnBroker) -> None:
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)


def _failover_row(what: str, done: Failover, noticed_s: float) -> Row:
    """Args: noticed_s: until the store knows of it; the aims come on top."""
    at_most = FAILOVER_S_MAX + noticed_s
    return Row(
        f"{what} of a broker that leads {done.led} partitions",
        [
            Figure(done.leaders_s, "s until all have a leader", at_most=at_most),
            Figure(done.produced_s, "s until all stored a record, acks=all", at_most=at_most),
            Figure(done.fetched_s, "s until all were read", at_most=at_most),
            Figure(done.wait_ms, "ms, longest wait of another client"),
        ],
        f"of that {noticed_s:g} s until broker.session.timeout.ms has passed"
        if noticed_s
        else "the store sees at once that the process is gone",
    )


def _idle_row(cluster: OwnCluster, what: str, empty_mb: float, created_s: float) -> Row:
    began = time.monotonic()
    wait_until_quiet(cluster)
    quiet_s = created_s + time.monotonic() - began
    used = busiest_percent(cluster, IDLE_S)
    return Row(
        f"idle cluster: {what}, factor {BROKERS}",
        [
            Figure(used, "% of a core, the busiest broker", at_most=IDLE_CORE_PERCENT_MAX),
            Figure(memory_mb(cluster), "MB per broker"),
            Figure(empty_mb, "MB per broker, before"),
            Figure(created_s, "s until created"),
            Figure(quiet_s, "s until all logs are open and the brokers quiet"),
        ],
        f"CPU time of the processes over {IDLE_S:.0f} s",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    options = parser.parse_args()
    for row in rows(options.partitions):
        print(row.name, f"({row.note})", flush=True)
        for figure in row.figures:
            print(f"    {figure.value:10.2f} {figure.unit}", flush=True)


if __name__ == "__main__":
    main()
