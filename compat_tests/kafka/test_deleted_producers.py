"""An open transaction whose records kqueue has deleted: Kafka opens the folder, and ends it.

Kafka removes a snapshot at the log start when it opens a folder, its own too. So after a kill a
later one has to be there: that of a second roll.
"""

from __future__ import annotations

import pytest

from compat_tests.kafka import clients
from compat_tests.kafka.clients import START_MS, Sent, Writer
from compat_tests.kafka.node import Kafka
from compat_tests.kafka.serving import Process
from compat_tests.waits import eventually, eventually_equal
from kqueue.client import Client, TopicPartition

HOUR_MS = 3_600_000
TOPIC = TopicPartition("t", 0)


def open_since(bootstrap: str) -> list[int | None]:
    """The first offsets of the transactions that are open in the partition."""
    with Client(bootstrap) as client:
        producers = client.transactions.producers([TOPIC])[TOPIC]
    return [producer.transaction_start for producer in producers if producer.transaction_start is not None]


def values(bootstrap: str) -> list[bytes | None]:
    return [row.value for row in clients.read(bootstrap, ["t"], committed=True)["t"]]


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_kafka_goes_on_with_producers_of_deleted_records(kafka: Kafka, kill: bool) -> None:
    with kafka as node:
        clients.create_topic(node.bootstrap, "t", **{"segment.ms": HOUR_MS, "file.delete.delay.ms": 0})
        Writer(node.bootstrap, **{"transactional.id": "first"}).init()  # makes the coordinator's topic
    listener = f"PLAINTEXT://127.0.0.1:{kafka.ports[0]}"
    with Process(kafka.data, kafka.place / "kqueue.log", listeners=listener) as process:
        bootstrap = process.bootstrap
        settings = {"transactional.id": "held", "transaction.timeout.ms": 600_000}
        held = Writer(bootstrap, **settings).init()
        held.begin()
        held.write("t", [Sent(b"held", timestamp=START_MS)])
        for hours in (2, 4):  # each begins a segment
            clients.write(bootstrap, "t", [Sent(b"behind it", timestamp=START_MS + hours * HOUR_MS)])
        clients.delete_records(bootstrap, "t", 0, 1)
        segment = kafka.partition("t") / f"{0:020}.log"
        eventually(lambda: not segment.exists(), "the deletion of the first segment")
        assert open_since(bootstrap) == [0]
        if kill:
            process.kill()
    assert (kafka.partition("t") / f"{1:020}.snapshot").exists()
    with kafka as node:
        assert open_since(node.bootstrap) == [0]
        assert values(node.bootstrap) == []
        held.end(commit=True)
        eventually_equal(lambda: values(node.bootstrap), [b"behind it", b"behind it"], "what is committed")
        assert open_since(node.bootstrap) == []
    assert kafka.complaints() == []
