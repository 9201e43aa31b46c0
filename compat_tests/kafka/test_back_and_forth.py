"""S3.6: one data folder, and Kafka and kqueue in turn; what one acknowledged the other serves,
after clean stops and after kills.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.kafka import clients, folders
from compat_tests.kafka.clients import START_MS, Row, Sent, Writer, sample
from compat_tests.kafka.node import Kafka
from compat_tests.kafka.serving import Process, on_partition, serving
from kqueue.broker.replicas.partition import Partition
from kqueue.records.batch import ABORT, COMMIT, control_key_value, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.tests import golden

GROUP = "travellers"
TOPICS = ["plain", "zstd", "txn", "index", "small"]
PLACES = [("plain", 0), ("plain", 1), ("zstd", 0)]
METADATA = "__cluster_metadata-0"


class Seen(NamedTuple):
    """What clients find."""

    rows: dict[str, list[Row]]
    committed_rows: dict[str, list[Row]]
    watermarks: dict[str, dict[int, tuple[int, int]]]
    groups: dict[tuple[str, int], int]


def look(bootstrap: str) -> Seen:
    return Seen(
        clients.read(bootstrap, TOPICS),
        clients.read(bootstrap, TOPICS, committed=True),
        clients.watermarks(bootstrap, TOPICS),
        clients.committed(bootstrap, GROUP, PLACES),
    )


def create(bootstrap: str) -> None:
    clients.create_topic(bootstrap, "plain", 2)
    clients.create_topic(bootstrap, "zstd")
    clients.create_topic(bootstrap, "txn")
    clients.create_topic(bootstrap, "index", segment_index_bytes=60, index_interval_bytes=100)
    clients.create_topic(bootstrap, "small", internal_segment_bytes=1_500)


def write(bootstrap: str, turn: int) -> None:
    """What either broker takes in its turn."""
    clients.write(bootstrap, "plain", sample(f"turn {turn}", 80, partitions=2, start=turn * 80), "lz4")
    clients.write(
        bootstrap, "zstd", sample(f"turn {turn}", 50, start=turn * 50), "zstd", **{"enable.idempotence": True}
    )
    clients.write(bootstrap, "small", sample(f"turn {turn}", 100, start=turn * 100), "none", batch_records=5)
    clients.write(bootstrap, "index", sample(f"turn {turn}", 100, start=turn * 100), "none", batch_records=5)
    clients.commit(bootstrap, GROUP, {("plain", 0): turn * 40 + 7})
    clients.consume_in_group(bootstrap, GROUP, "zstd", 11)


def write_transactions(bootstrap: str, turn: int) -> None:
    """Transactions through Kafka's coordinator."""
    writer = Writer(bootstrap, "snappy", **{"transactional.id": "traveller"}).init()
    for number in range(4):
        writer.transaction("txn", sample(f"turn {turn}", 10, start=number * 10), commit=number % 2 == 0)


def append_transactions(partition: Partition) -> None:
    """One committed and one aborted, as a producer and a coordinator would have sent them."""
    for producer_id, kind in ((5_000_001, COMMIT), (5_000_002, ABORT)):
        append_batch(partition, (b"key", b"by hand"), producer_id=producer_id, base_sequence=0)
        append_batch(partition, control_key_value(kind, 0), producer_id=producer_id, control=True)


def append_batch(partition: Partition, pair: tuple[bytes, bytes], *, control: bool = False, **settings: int) -> None:
    builder = BatchBuilder(epoch=0, transactional=True, control=control, **settings)
    builder.append(START_MS, *pair)
    batch = builder.build()
    partition.append(memoryview(batch), read_header(batch), client=not control)


@contextmanager
def metadata_untouched(data: Path) -> Iterator[None]:
    """Kafka's own log of metadata, and what it needs to find its topics again, are left as they
    are.
    """
    keep = (METADATA, *(f"{topic}-0/partition.metadata" for topic in TOPICS), "bootstrap.checkpoint")
    before = {name: sum_ for name, sum_ in folders.contents(data).items() if name.startswith(keep)}
    assert any(name.startswith(METADATA) for name in before)
    yield
    assert {name: sum_ for name, sum_ in folders.contents(data).items() if name.startswith(keep)} == before


def test_clean_stops(kafka: Kafka) -> None:
    """S3.6, S4.5: Kafka, kqueue, Kafka, kqueue, Kafka: records, transactions and committed offsets
    of all before, and more of each.
    """
    with kafka:
        create(kafka.bootstrap)
        write(kafka.bootstrap, 0)
        write_transactions(kafka.bootstrap, 0)
        seen = look(kafka.bootstrap)
    for turn in (1, 3):
        with metadata_untouched(kafka.data), serving(kafka.data) as broker:
            assert look(broker.bootstrap) == seen
            if turn == 1:
                on_partition(broker, "txn", 0, append_transactions)
            clients.write(broker.bootstrap, "txn", sample("after", 3))
            write(broker.bootstrap, turn)
            seen = look(broker.bootstrap)
        with kafka:
            assert look(kafka.bootstrap) == seen
            write(kafka.bootstrap, turn + 1)
            write_transactions(kafka.bootstrap, turn + 1)
            seen = look(kafka.bootstrap)
    assert len(seen.rows["plain"]) == 5 * 80
    assert len(seen.committed_rows["txn"]) == 3 * 20 + 1 + 2 * 3
    assert len(folders.files(kafka.partition("small"), ".log")) > 10
    assert kafka.complaints() == []


class Stream:
    """Writes records in a thread until the broker stops; `acked` has the confirmed values."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acked: list[bytes] = []
        self.enough = threading.Event()
        self._writer = Writer(bootstrap, "none", **{"message.timeout.ms": 2_000, "acks": "all"})
        self._thread = threading.Thread(target=self._run, args=(topic,))

    def _run(self, topic: str) -> None:
        for number in range(1_000_000):
            value = b"%s %d" % (topic.encode(), number)
            try:
                self._writer.write(topic, [Sent(value, b"key"), Sent(value + b" again")])
            except AssertionError:
                return
            self.acked.append(value)
            if number == 100:
                self.enough.set()

    def until_killed(self, kill: Callable[[], None]) -> list[bytes]:
        """Kill the broker once a hundred writes were acknowledged, in the midst of more; returns
        the values that were.
        """
        self._thread.start()
        assert self.enough.wait(clients.TIMEOUT_S), f"{len(self.acked)} writes were acknowledged, not 100"
        kill()
        self._thread.join(clients.TIMEOUT_S)
        assert not self._thread.is_alive(), f"the writer does not notice the kill; {len(self.acked)} writes"
        return self.acked


def check_kept(rows: list[Row], before: list[Row], acked: list[bytes]) -> None:
    """All that was there, and all that was acknowledged since, in order, once. Raises
    AssertionError.
    """
    assert rows[: len(before)] == before
    values = [row.value for row in rows[len(before) :]]
    assert len(values) == len(set(values))
    expected = [value for one in acked for value in (one, one + b" again")]
    assert values[: len(expected)] == expected
    assert len(values) - len(expected) <= 2  # what was under way


@pytest.mark.parametrize("flush", ["group", "kafka"])
def test_kqueue_is_killed(kafka: Kafka, tmp_path: Path, flush: str) -> None:
    """S5.3: kill -9 of kqueue while it appends; Kafka recovers the folder and serves what kqueue
    acknowledged.
    """
    with kafka:
        create(kafka.bootstrap)
        write(kafka.bootstrap, 0)
        write_transactions(kafka.bootstrap, 0)
    with metadata_untouched(kafka.data), Process(kafka.data, tmp_path / "kqueue.log", kqueue_flush=flush) as process:
        write(process.bootstrap, 1)
        seen = look(process.bootstrap)
        acked = Stream(process.bootstrap, "small").until_killed(process.kill)
    with kafka:
        recovered = look(kafka.bootstrap)
        check_kept(recovered.rows["small"], seen.rows["small"], acked)
        for topic in TOPICS[:-1]:
            assert recovered.rows[topic] == seen.rows[topic]
            assert recovered.committed_rows[topic] == seen.committed_rows[topic]
        assert recovered.groups == seen.groups
        write(kafka.bootstrap, 2)
        seen = look(kafka.bootstrap)
    with serving(kafka.data) as broker:
        assert look(broker.bootstrap) == seen


def test_kafka_is_killed(kafka: Kafka) -> None:
    """S5.3: kill -9 of Kafka while it appends; kqueue recovers the folder, serves all, and leaves
    it so that Kafka does again.
    """
    with kafka:
        create(kafka.bootstrap)
        write(kafka.bootstrap, 0)
        write_transactions(kafka.bootstrap, 0)
        seen = look(kafka.bootstrap)
        acked = Stream(kafka.bootstrap, "small").until_killed(kafka.kill)
    with metadata_untouched(kafka.data), serving(kafka.data) as broker:
        recovered = look(broker.bootstrap)
        check_kept(recovered.rows["small"], seen.rows["small"], acked)
        for topic in TOPICS[:-1]:
            assert recovered.rows[topic] == seen.rows[topic]
            assert recovered.committed_rows[topic] == seen.committed_rows[topic]
        assert recovered.groups == seen.groups
        write(broker.bootstrap, 1)
        seen = look(broker.bootstrap)
    with kafka:
        assert look(kafka.bootstrap) == seen


def test_kqueue_follows_what_kafka_does_to_topics(kafka: Kafka) -> None:
    """S3.1: between two turns of kqueue Kafka makes a topic, adds partitions to another, and
    deletes and recreates a third.
    """
    with kafka:
        for topic in ("kept", "grows", "goes", "anew"):
            clients.create_topic(kafka.bootstrap, topic)
            clients.write(kafka.bootstrap, topic, sample(topic, 20))
    with serving(kafka.data) as broker:
        for topic in ("kept", "grows", "goes", "anew"):
            clients.write(broker.bootstrap, topic, sample(topic, 20))
    with kafka:
        clients.delete_topics(kafka.bootstrap, "goes", "anew")
        clients.add_partitions(kafka.bootstrap, "grows", 3)
        clients.create_topic(kafka.bootstrap, "anew")
        clients.create_topic(kafka.bootstrap, "new", 2)
        for topic, partitions in (("grows", 3), ("anew", 1), ("new", 2)):
            clients.write(kafka.bootstrap, topic, sample(f"{topic} later", 30, partitions=partitions))
        topics = ["kept", "grows", "anew", "new"]
        rows = clients.read(kafka.bootstrap, topics)
    with serving(kafka.data, auto_create_topics_enable=False) as broker:
        assert clients.topics(broker.bootstrap) == {"kept": 1, "grows": 3, "anew": 1, "new": 2}
        assert clients.read(broker.bootstrap, topics) == rows
        clients.write(broker.bootstrap, "new", sample("and kqueue", 30, partitions=2))
        rows = clients.read(broker.bootstrap, topics)
    with kafka:
        assert clients.read(kafka.bootstrap, topics) == rows
        assert clients.topics(kafka.bootstrap) == {"kept": 1, "grows": 3, "anew": 1, "new": 2}


def test_kafka_serves_old_formats_that_kqueue_carried_on(kafka: Kafka) -> None:
    """S3.3: logs of Kafka 2.8 in formats 0 and 1, in the folders of topics of Kafka 4.3."""
    topics = [f"v{magic}-{codec}" for magic in (0, 1) for codec in ("none", "gzip", "lz4")]
    with kafka:
        for topic in topics:
            clients.create_topic(kafka.bootstrap, topic)
    for topic in topics:
        for file in folders.files(kafka.partition(topic), ".log", ".index", ".timeindex"):
            file.unlink()
        for file in folders.files(golden.data_folder("2.8") / f"{topic}-0"):
            shutil.copy(file, kafka.partition(topic))
    with serving(kafka.data) as broker:
        for topic in topics:
            clients.write(broker.bootstrap, topic, sample(topic, 40), "gzip")
        rows = clients.read(broker.bootstrap, topics)
    for topic in topics:
        before = golden.expected("2.8")[topic].records
        assert [tuple(row) for row in rows[topic][: len(before)]] == [tuple(record) for record in before]
        assert len(rows[topic]) == len(before) + 40
    with kafka:
        assert clients.read(kafka.bootstrap, topics) == rows
