"""Logs that move between data folders while stock clients produce and consume."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from kafka import KafkaAdminClient, TopicPartitionReplica
from kafka.errors import LogDirNotFoundError, NoError, UnknownTopicOrPartitionError

import kqueue
from kqueue.tests.waits import HangLimit, eventually

MOVES = 4


def place_of(admin: KafkaAdminClient) -> str | None:
    """The folder that has the partition; None while it is being moved."""
    (broker,) = admin.describe_log_dirs(["t"])
    rows = [
        (folder["log_dir"], row["is_future_key"])
        for folder in broker["log_dirs"]
        for topic in folder["topics"]
        for row in topic["partitions"]
    ]
    return None if any(is_future for _, is_future in rows) else rows[0][0]


def move(admin: KafkaAdminClient, place: Path) -> None:
    replica = TopicPartitionReplica("t", 0, 1)
    assert admin.alter_replica_log_dirs({replica: str(place)}) == {replica: NoError}
    eventually(lambda: place_of(admin) == str(place), "the end of the move")


@pytest.mark.thorough
@pytest.mark.parametrize("flush", ["group", "kafka"])
def test_no_record_is_lost_doubled_or_reordered(tmp_path: Path, flush: str) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    failed: list[KafkaError] = []
    is_over = threading.Event()
    sent = [0]

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    def produce(bootstrap: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1})
        while not is_over.is_set():
            for _ in range(50):
                producer.produce("t", b"%d" % sent[0] + b"." * 1000, on_delivery=delivered)
                sent[0] += 1
            producer.poll(0)
            time.sleep(0.005)
        assert producer.flush(60) == 0

    with kqueue.Broker(log_dirs=[str(place) for place in places], kqueue_flush=flush) as broker:
        broker.create_topic("t", segment_bytes=2_000_000)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        producing = threading.Thread(target=produce, args=(broker.bootstrap,))
        producing.start()
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            began_in = places.index(Path(place_of(admin) or ""))
            for number in range(1, MOVES + 1):
                move(admin, places[(began_in + number) % 2])
        is_over.set()
        producing.join()
        read = 0
        limit = HangLimit(f"{sent[0]} records")
        while read < sent[0]:
            messages = consumer.consume(200, timeout=1)
            limit.check()
            for message in messages:
                assert message.error() is None
                assert message.value().rstrip(b".") == b"%d" % read
                read += 1
        consumer.close()
        assert not failed
        assert broker.topics["t"].end_offsets == {0: sent[0]}
    with kqueue.Broker(log_dirs=[str(place) for place in places], kqueue_flush=flush) as broker:
        assert broker.topics["t"].end_offsets == {0: sent[0]}
    assert sum((place / "t-0").exists() for place in places) == 1


def test_errors_are_kafkas(tmp_path: Path) -> None:
    with (
        kqueue.Broker(log_dirs=[str(tmp_path / "one"), str(tmp_path / "two")]) as broker,
        KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin,
    ):
        broker.create_topic("t")
        here, missing = TopicPartitionReplica("t", 0, 1), TopicPartitionReplica("t", 5, 1)
        assert admin.alter_replica_log_dirs({here: "/nowhere"}) == {here: LogDirNotFoundError}
        answers = admin.alter_replica_log_dirs({here: str(tmp_path / "one"), missing: str(tmp_path / "one")})
        assert answers == {here: NoError, missing: UnknownTopicOrPartitionError}


@pytest.mark.parametrize("commits", [True, False])
def test_an_open_transaction_moves_along(tmp_path: Path, commits: bool) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "group.id": "g"}
    with kqueue.Broker(log_dirs=[str(place) for place in places]) as broker:
        broker.create_topic("t")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "a"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("t", "before")
        producer.flush(60)
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            source = Path(place_of(admin) or "")
            move(admin, places[1 - places.index(source)])
            assert broker.topics["t"].records(read_committed=True) == []
            producer.produce("t", "after")
            producer.flush(60)
            move(admin, source)
        if commits:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
        producer.begin_transaction()
        producer.produce("t", "later")
        producer.commit_transaction(60)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap} | settings)
        consumer.subscribe(["t"])
        values = []
        while b"later" not in values:
            values += [message.value() for message in consumer.consume(10, timeout=0.2)]
        consumer.close()
        assert values == ([b"before", b"after", b"later"] if commits else [b"later"])
