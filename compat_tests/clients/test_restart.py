"""Broker restarts on the same address: connected clients continue."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.contract import IDEMPOTENCE, BrokerError, PendingSend, Place, Producer, Record
from compat_tests.clients.brokers import DISK, RunningBroker
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.scenario_helpers import collect, nothing_more, numbered, send_all
from compat_tests.waits import eventually, look_until

Name = Callable[[str], str]


def test_producer_and_consumer_continue_after_restart(
    own_broker: RunningBroker, connect: ClientFactory, name: Name
) -> None:
    place = Place(name("topic"), 0)
    protocol_client.create_topic(own_broker.bootstrap, place.topic)
    producer = connect.producer(own_broker.bootstrap)
    consumer = connect.consumer(own_broker.bootstrap, assign=[place])
    for round_number in range(3):
        if round_number:
            own_broker.restart()
        values = numbered(50, f"round-{round_number}")
        send_all(producer, place.topic, values)
        records = collect(consumer, 50)
        assert [record.value for record in records] == values
        assert [record.offset for record in records] == list(range(50 * round_number, 50 * round_number + 50))
    fresh = connect.consumer(own_broker.bootstrap, assign=[place])
    assert [record.offset for record in collect(fresh, 150)] == list(range(150))


@pytest.mark.long
def test_group_continues_after_restart(own_broker: RunningBroker, connect: ClientFactory, name: Name) -> None:
    chosen, group = name("topic"), name("group")
    protocol_client.create_topic(own_broker.bootstrap, chosen, 2)
    producer = connect.producer(own_broker.bootstrap)
    consumer = connect.consumer(own_broker.bootstrap, chosen, group=group, session_ms=6_000)
    for partition in (0, 1):
        send_all(producer, chosen, numbered(20), partition=partition)
    collect(consumer, 20 * 2)
    consumer.commit()
    own_broker.restart()
    for partition in (0, 1):
        place = Place(chosen, partition)
        # the group may have another coordinator: aiokafka returns None until its next heartbeat
        eventually(lambda place=place: consumer.committed(place) == 20, "the committed offset")  # type: ignore[misc]
        send_all(producer, chosen, numbered(10, "more"), partition=partition)
    assert {record.value for record in collect(consumer, 20)} == set(numbered(10, "more"))
    consumer.commit()
    consumer.close()
    own_broker.restart()
    heir = connect.consumer(own_broker.bootstrap, chosen, group=group, session_ms=6_000)
    nothing_more(heir, 2)
    assert [heir.committed(Place(chosen, partition)) for partition in (0, 1)] == [30, 30]


@pytest.mark.long
def test_idempotent_producer_continues_after_restarts(
    own_broker: RunningBroker, connect: ClientFactory, name: Name, needs: Callable[[str], None]
) -> None:
    """The broker restarts while records are in flight; each is written once, in order."""
    needs(IDEMPOTENCE)
    place = Place(name("topic"), 0)
    protocol_client.create_topic(own_broker.bootstrap, place.topic)
    producer = connect.producer(own_broker.bootstrap, idempotent=True, batch_bytes=500)
    pending: list[PendingSend] = []
    stop = threading.Event()
    sender = threading.Thread(target=_stream, args=(producer, place.topic, pending, stop), daemon=True)
    sender.start()
    watcher = connect.consumer(own_broker.bootstrap, assign=[place])
    for _ in range(2):
        before = len(pending)
        eventually(lambda before=before: len(pending) > before + 200, "the stream goes on")  # type: ignore[misc]
        own_broker.restart()
    before = len(pending)
    eventually(lambda: len(pending) > before + 200, "the stream goes on")
    stop.set()
    sender.join(30)
    assert not sender.is_alive()
    producer.flush()
    for each in pending:
        each.result()
    records = collect(watcher, len(pending))
    assert [record.value for record in records] == numbered(len(pending))
    assert [record.offset for record in records] == list(range(len(pending)))


def _stream(producer: Producer, topic: str, pending: list[PendingSend], stop: threading.Event) -> None:
    while not stop.wait(0.001):
        pending.append(producer.send(topic, b"value-%d" % len(pending)))


@pytest.mark.long
def test_topics_and_configs_survive_restart(own_broker: RunningBroker, connect: ClientFactory, name: Name) -> None:
    chosen = name("topic")
    protocol_client.create_topic(own_broker.bootstrap, chosen, 5, {"retention.ms": "123456"})
    admin = connect.admin(own_broker.bootstrap)
    before = admin.topic_settings(chosen)
    assert before["retention.ms"] == "123456"
    own_broker.restart()
    again = connect.admin(own_broker.bootstrap)
    assert chosen in again.topics()
    assert set(again.describe_topic(chosen)) == set(range(5))
    assert again.topic_settings(chosen) == before


def test_corrupted_records_are_not_served(
    own_broker: RunningBroker, storage: str, tmp_path: Path, connect: ClientFactory, name: Name
) -> None:
    """The client gets an error or no records; a seek past the damage continues."""
    if storage != DISK:
        pytest.skip("there is no file to damage")
    place = Place(name("topic"), 0)
    protocol_client.create_topic(own_broker.bootstrap, place.topic)
    producer = connect.producer(own_broker.bootstrap)
    for value in (b"before", b"damaged", b"after"):
        producer.send(place.topic, value).result()
    producer.close()
    (log,) = tmp_path.glob(f"**/{place.topic}-0/*.log")
    content = log.read_bytes()
    log.write_bytes(content.replace(b"damaged", b"dbmaged"))
    own_broker.restart()
    consumer = connect.consumer(own_broker.bootstrap, assign=[place])
    assert [record.value for record in collect(consumer, 1)] == [b"before"]

    def polled() -> list[Record]:
        with contextlib.suppress(BrokerError):
            return consumer.poll(0.1)
        return []

    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        assert polled() == []
    consumer.seek(place, 2)
    # the answer to a fetch from before may still be an error
    records = look_until(polled, bool, "the record behind the damage")
    assert [(record.offset, record.value) for record in records] == [(2, b"after")]
