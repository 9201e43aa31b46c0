"""Brokers that start from a snapshot: what they contain, keep and discard."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import kqueue
from kqueue.base.errors import SnapshotRefused
from kqueue.embedded.inspection.records import Record
from kqueue.log_tools.verify import verify
from kqueue.metadata.memory import MemoryStore
from kqueue.storage import MemoryStorage
from kqueue.tests.waits import HangLimit


class Seeded(NamedTuple):
    """A snapshot, and the records of its topic `orders`."""

    folder: Path
    records: list[Record]


@pytest.fixture(scope="module", params=["memory", "disk"])
def seeded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    """A shared snapshot: records in several codecs, a committed offset and a topic with settings.

    Tests must not change it.
    """
    tmp_path = tmp_path_factory.mktemp(request.param)
    with kqueue.Broker(tmp_path / "original" if request.param == "disk" else None) as broker:
        broker.create_topic("orders", 2, max_message_bytes=123_456)
        broker.create_topic("empty")
        for codec in (None, "gzip", "zstd"):
            with KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=codec) as producer:
                for number in range(10):
                    producer.send(
                        "orders", b"%d" % number, key=b"%d" % number, headers=[("codec", str(codec).encode())]
                    )
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="mail", enable_auto_commit=False)
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek(TopicPartition("orders", 0), 2)
        consumer.commit()
        consumer.close()
        broker.snapshot(tmp_path / "seeded")
        return Seeded(tmp_path / "seeded", broker.topics["orders"].records())


def check(broker: kqueue.Broker, seeded: Seeded) -> None:
    assert list(broker.topics) == ["empty", "orders"]
    assert len(seeded.records) == 30
    assert broker.topics["orders"].records() == seeded.records
    assert broker.topics["orders"].config["max.message.bytes"] == 123_456
    assert broker.groups["mail"].offsets == {"orders": {0: 2}}


def test_client_continues_from_the_snapshot(seeded: Seeded) -> None:
    with kqueue.Broker(snapshot=seeded.folder) as broker:
        check(broker, seeded)
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="mail", consumer_timeout_ms=20_000)
        consumer.assign([TopicPartition("orders", 0)])
        assert next(consumer).offset == 2
        consumer.close()
        end = broker.topics["orders"].end_offsets[0]
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            assert producer.send("orders", b"more", partition=0).get(timeout=60).offset == end


def test_restart_keeps_data_and_a_new_broker_starts_from_the_snapshot(seeded: Seeded) -> None:
    broker = kqueue.Broker(snapshot=seeded.folder)
    for _ in range(2):
        with broker:
            check(broker, seeded)
            broker.topics["orders"].produce("own", partition=0)
            broker.create_topic("more")
            for _ in range(2):
                broker.restart()
                assert list(broker.topics) == ["empty", "more", "orders"]
                assert len(broker.topics["orders"].records()) == 31


def test_copy_in_a_given_path_is_kept(seeded: Seeded, tmp_path: Path) -> None:
    broker = kqueue.Broker(tmp_path / "copy", snapshot=seeded.folder)
    with broker:
        check(broker, seeded)
        broker.topics["orders"].produce("own", partition=0)
        broker.restart()
    with broker:  # the same object knows that it is its own
        assert len(broker.topics["orders"].records()) == 31
    with pytest.raises(SnapshotRefused, match="copy is not empty"):
        kqueue.Broker(tmp_path / "copy", snapshot=seeded.folder).start()
    with kqueue.Broker(tmp_path / "copy") as other:
        assert len(other.topics["orders"].records()) == 31


def test_snapshot_can_be_served_directly(seeded: Seeded, tmp_path: Path) -> None:
    with kqueue.Broker(shutil.copytree(seeded.folder, tmp_path / "served")) as broker:
        check(broker, seeded)


def test_given_storages_and_stores_are_filled(seeded: Seeded) -> None:
    storage, store = MemoryStorage(), MemoryStore()
    broker = kqueue.Broker(storage=storage, metadata=store, snapshot=seeded.folder)
    for _ in range(2):  # they are the program's, and keep what is in them
        with broker:
            check(broker, seeded)
    assert storage.exists("orders-0")
    assert "/topics/orders" in store.read("/")


def test_a_snapshot_of_a_snapshot_is_the_same(seeded: Seeded, tmp_path: Path) -> None:
    with kqueue.Broker(snapshot=seeded.folder) as broker:
        broker.snapshot(tmp_path / "second")
        broker.topics["orders"].produce("not in it")
        check_second = kqueue.Broker(snapshot=tmp_path / "second")
        with check_second:
            check(check_second, seeded)


def test_snapshot_is_consistent_while_clients_write(tmp_path: Path) -> None:
    """The snapshot contains every confirmed record and no partition has a gap.

    Idempotent clients see no error.
    """
    with kqueue.Broker(tmp_path / "data") as broker:
        broker.create_topic("orders", 3)
        enough, told = threading.Event(), list[tuple[int, int]]()
        go_on = True

        def produce() -> None:
            with KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0) as producer:
                number = 0
                while go_on:
                    made = producer.send("orders", b"%d" % number, partition=number % 3).get(timeout=60)
                    told.append((made.partition, made.offset))
                    number += 1
                    if number == 100:
                        enough.set()

        thread = threading.Thread(target=produce)
        thread.start()
        assert enough.wait(60)
        before = len(told)
        broker.snapshot(tmp_path / "snapshot")
        go_on = False
        thread.join()
        with kqueue.Broker(snapshot=tmp_path / "snapshot") as copy:
            records = copy.topics["orders"].records()
            assert {(one.partition, one.offset) for one in records} >= set(told[:before])
            # one after another: what is in it is the beginning of all that was sent
            assert sorted(int(one.value or b"") for one in records) == list(range(len(records)))
            assert len(records) <= len(told)


@pytest.mark.long
def test_snapshot_is_complete_during_compaction_and_retention(tmp_path: Path) -> None:
    quick = {"log.cleaner.backoff.ms": 10, "log.retention.check.interval.ms": 10, "log.segment.delete.delay.ms": 5}
    with kqueue.Broker(tmp_path / "data", settings=quick) as broker:
        broker.create_topic(
            "compacted", cleanup_policy="compact", segment_bytes=5_000, min_cleanable_dirty_ratio="0.01"
        )
        broker.create_topic("short", retention_bytes=20_000, segment_bytes=5_000)
        number = taken = 0
        limit = HangLimit("compaction and retention")
        while taken < 5 or not (
            broker.topics["short"].start_offsets[0] and len(broker.topics["compacted"].records()) < number - 300
        ):
            limit.check()
            broker.topics["compacted"].produce_all([(f"k{(number + n) % 50}", f"{number + n}") for n in range(100)])
            broker.topics["short"].produce_all([bytes(500)] * 10)
            number += 100
            folder = tmp_path / f"snapshot {taken}"
            broker.snapshot(folder)
            taken += 1
            assert verify(folder, deep=True).errors == []
            with kqueue.Broker(snapshot=folder) as copy:
                latest = {record.key: int(record.value or b"") for record in copy.topics["compacted"].records()}
                assert sorted(latest.values()) == list(range(number - 50, number))
                assert copy.topics["short"].end_offsets == broker.topics["short"].end_offsets
