"""Brokers with a tier in this process, on real threads: a store that hangs delays no client."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import kqueue
from kqueue.base.registry import BUILT_IN
from kqueue.tests.waits import eventually
from kqueue.tier.errors import TierError
from kqueue.tier.stores.address import TIER_STORES
from kqueue.tier.stores.contract import Buffer
from kqueue.tier.stores.memory import MemoryTierStore

SETTINGS: dict[str, object] = {
    "remote.log.storage.system.enable": True,
    "remote.log.manager.task.interval.ms": 20,
    "log.retention.check.interval.ms": 20,
    "remote.fetch.max.wait.ms": 50,
}
COUNT = 80
SENT = [b"%04d" % number * 20 for number in range(COUNT)]


class HangingStore(MemoryTierStore):
    """A store whose reads and copies wait after `hang`, until it is closed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._goes_on = threading.Event()
        self._goes_on.set()
        self.waiting: list[str] = []

    def hang(self) -> None:
        self._goes_on.clear()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._wait("read")
        return super().get_range(key, start, length)

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        self._wait("copy")
        super().put(key, parts, size)

    def _wait(self, what: str) -> None:
        if not self._goes_on.is_set():
            self.waiting.append(what)
            self._goes_on.wait()
            raise TierError("the store was closed")

    def close(self) -> None:
        self._goes_on.set()


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[HangingStore]:
    hanging = HangingStore(request.node.name.replace("[", "-").replace("]", ""))
    with TIER_STORES.added("hanging", lambda url: hanging, BUILT_IN):
        yield hanging


def filled(broker: kqueue.Broker) -> None:
    """Fill topic t, whose disk keeps the last segment."""
    broker.create_topic("t", remote_storage_enable=True, segment_bytes=2000, local_retention_bytes=1)
    with KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0) as producer:
        for value in SENT:
            producer.send("t", value).get(60)
    eventually(lambda: local_start(broker) > COUNT / 2)


def local_start(broker: kqueue.Broker) -> int:
    return broker.topics["t"].local_start_offsets[0]


def test_program_sees_records_that_only_the_tier_has(store: HangingStore) -> None:
    with kqueue.Broker(settings={**SETTINGS, "kqueue.tier.url": "hanging://x"}) as broker:
        filled(broker)
        assert [record.value for record in broker.topics["t"].records()] == SENT
        assert [record.offset for record in broker.topics["t"].records(start=3, stop=5, partition=0)] == [3, 4]


@pytest.mark.long
def test_hanging_store_holds_up_neither_producers_nor_tail_readers_nor_the_stop(store: HangingStore) -> None:
    with kqueue.Broker(settings={**SETTINGS, "kqueue.tier.url": "hanging://x"}) as broker:
        filled(broker)
        store.hang()
        place = TopicPartition("t", 0)
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            old = KafkaConsumer(bootstrap_servers=broker.bootstrap)
            old.assign([place])
            old.seek(place, 0)
            assert not old.poll(300), "nothing of the tier comes"
            tail = KafkaConsumer(bootstrap_servers=broker.bootstrap)
            tail.assign([place])
            tail.seek(place, COUNT)
            for number in range(60):
                producer.send("t", b"later-%d" % number * 10).get(60)
            later = eventually(lambda: [one.offset for one in tail.poll(100).get(place, [])])
            assert later[0] == COUNT
            eventually(lambda: {"read", "copy"} <= set(store.waiting))
            old.close()
            tail.close()


@pytest.mark.long
def test_cluster_goes_on_over_failovers_and_each_record_is_read_once(store: HangingStore) -> None:
    settings = {**SETTINGS, "kqueue.tier.url": "hanging://x"}
    topic = {"remote_storage_enable": True, "segment_bytes": 2000, "local_retention_bytes": 1, "min_insync_replicas": 2}
    with kqueue.Cluster(3, settings=settings) as cluster:
        cluster.create_topic("t", 1, replication_factor=3, **topic)
        sent: list[bytes] = []
        with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", retries=100) as producer:
            for _ in range(3):
                leader = cluster.leader("t")
                assert leader is not None
                for _ in range(60):
                    sent.append(b"%06d" % len(sent) * 20)
                    producer.send("t", sent[-1]).get(60)
                eventually(lambda broker=cluster[leader]: local_start(broker) > len(sent) - 60)  # type: ignore[misc]
                cluster.kill(leader)
                for _ in range(60):
                    sent.append(b"%06d" % len(sent) * 20)
                    producer.send("t", sent[-1]).get(60)
                cluster.start(leader)
                cluster.wait_in_sync()
        consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap)
        place = TopicPartition("t", 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        read: list[bytes] = []
        eventually(
            lambda: read.extend(one.value for one in consumer.poll(100).get(place, [])) or len(read) >= len(sent)
        )
        consumer.close()
    assert read == sent
