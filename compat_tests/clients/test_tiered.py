"""Topics whose older segments are in an object store: clients see no border between it and disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.contract import TRANSACTIONS, Place
from compat_tests.clients.brokers import EXTERNAL, SETTINGS, RunningBroker, serving
from compat_tests.clients.conftest import SESSION_MS, ClientFactory
from compat_tests.clients.scenario_helpers import collect, numbered, send_all
from compat_tests.waits import look_until
from kqueue.client import TopicPartition

Name = Callable[[str], str]
EARLIEST_LOCAL = -4
INTERVAL_MS = 100
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": "2000",
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}


@pytest.fixture(scope="module")
def tiered(storage: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    if storage == EXTERNAL:
        pytest.skip("an external broker may have no tier")
    folder: Path = tmp_path_factory.mktemp("tiered")
    settings = {
        **SETTINGS,
        "remote.log.storage.system.enable": True,
        "kqueue.tier.url": (folder / "tier").as_uri(),
        "remote.log.manager.task.interval.ms": INTERVAL_MS,
        "log.retention.check.interval.ms": INTERVAL_MS,
    }
    (folder / "tier").mkdir()
    with serving(storage, folder / "data", SESSION_MS, settings) as running:
        yield running


def new_place(broker: RunningBroker, name: Name) -> Place:
    place = Place(name("tiered"), 0)
    protocol_client.create_topic(broker.bootstrap, place.topic, 1, TIERED)
    return place


def wait_until_tiered(broker: RunningBroker, place: Place, offset: int) -> None:
    """Wait until the disk has nothing below `offset`, as far as whole segments are below it."""
    partition = TopicPartition(*place)
    with protocol_client.asking(broker.bootstrap) as client:
        look_until(
            lambda: client.offsets({partition: EARLIEST_LOCAL})[partition].offset,
            lambda start: start >= offset,
            f"a local start of {offset} or more",
        )


def test_consumer_reads_all_from_the_start_and_goes_on_at_the_end(
    connect: ClientFactory, tiered: RunningBroker, name: Name
) -> None:
    place, producer = new_place(tiered, name), connect.producer(tiered.bootstrap)
    sent = numbered(300)
    for begin in range(0, 300, 50):
        send_all(producer, place.topic, sent[begin : begin + 50])
    wait_until_tiered(tiered, place, 100)
    consumer = connect.consumer(tiered.bootstrap, assign=[place])
    assert consumer.beginning_offset(place) == 0
    assert [record.value for record in collect(consumer, 300)] == sent
    send_all(producer, place.topic, [b"later"])
    assert [record.value for record in collect(consumer, 1)] == [b"later"]
    for offset in (7, 299, 120, 0):
        consumer.seek(place, offset)
        assert [record.offset for record in collect(consumer, 301 - offset)] == list(range(offset, 301))


def test_group_that_stopped_long_ago_goes_on_in_the_tier(
    connect: ClientFactory, tiered: RunningBroker, name: Name
) -> None:
    place, group, producer = new_place(tiered, name), name("group"), connect.producer(tiered.bootstrap)
    send_all(producer, place.topic, numbered(20))
    first = connect.consumer(tiered.bootstrap, place.topic, group=group, auto_commit_ms=None)
    collect(first, 20)
    first.commit()
    first.close()
    for _ in range(4):
        send_all(producer, place.topic, numbered(50, "later"))
    wait_until_tiered(tiered, place, 100)
    again = connect.consumer(tiered.bootstrap, place.topic, group=group, auto_commit_ms=None)
    assert [record.offset for record in collect(again, 200)] == list(range(20, 220))


def test_times_are_found_in_the_tier_and_on_the_disk(connect: ClientFactory, tiered: RunningBroker, name: Name) -> None:
    place, producer = new_place(tiered, name), connect.producer(tiered.bootstrap)
    begin_ms = int(time.time() * 1000) - 3_600_000
    for number in range(120):
        producer.send(place.topic, b"v" * 50, timestamp_ms=begin_ms + 1000 * number).result()
    wait_until_tiered(tiered, place, 50)
    consumer = connect.consumer(tiered.bootstrap, assign=[place])
    for number in (0, 1, 33, 80, 119):
        found = consumer.offset_for_time(place, begin_ms + 1000 * number - 1)
        assert found is not None
        assert found.offset == number
        assert found.timestamp_ms in (None, begin_ms + 1000 * number), "librdkafka does not pass it on"
    assert consumer.offset_for_time(place, begin_ms + 119_001) is None


def test_aborted_records_are_left_out_over_the_border(
    connect: ClientFactory, tiered: RunningBroker, name: Name, needs: Callable[[str], None]
) -> None:
    needs(TRANSACTIONS)
    place = new_place(tiered, name)
    producer = connect.producer(tiered.bootstrap, transactional_id=name("txn"))
    expected = []
    for number in range(12):
        producer.begin_transaction()
        sent = numbered(20, f"transaction-{number}")
        send_all(producer, place.topic, sent)
        if number % 3:
            producer.commit_transaction()
            expected += sent
        else:
            producer.abort_transaction()
    wait_until_tiered(tiered, place, 60)
    consumer = connect.consumer(tiered.bootstrap, assign=[place], read_committed=True)
    assert [record.value for record in collect(consumer, len(expected))] == expected
    assert len(collect(connect.consumer(tiered.bootstrap, assign=[place]), 240)) == 240
