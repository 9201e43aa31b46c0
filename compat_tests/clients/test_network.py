"""Scenarios with dropped replies and cut connections.

No record is lost, and an idempotent producer writes no duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat_tests.clients.adapters.contract import IDEMPOTENCE, Place
from compat_tests.clients.brokers import RunningBroker
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.proxy import FETCH, PRODUCE, Proxy
from compat_tests.clients.scenario_helpers import collect, numbered, send_all

pytestmark = pytest.mark.one_client

Topic = Callable[..., str]
Name = Callable[[str], str]


@pytest.fixture
def proxy(broker: RunningBroker) -> Iterator[Proxy]:
    with Proxy(broker.bootstrap) as proxy:
        yield proxy


def test_idempotent_producer_writes_once_after_lost_reply(
    proxy: Proxy, connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Callable[[str], None]
) -> None:
    needs(IDEMPOTENCE)
    place = Place(topic(), 0)
    producer = connect.producer(proxy.bootstrap, idempotent=True)
    producer.send(place.topic, b"value-0").result()
    proxy.drop_reply(PRODUCE)
    # The client learns the offset of the write although its reply was lost.
    assert producer.send(place.topic, b"value-1").result().offset in (1, -1)
    assert proxy.dropped == 1
    assert producer.send(place.topic, b"value-2").result().offset == 2
    assert proxy.requests[PRODUCE] == 4
    consumer = connect.consumer(broker.bootstrap, assign=[place])
    assert [record.value for record in collect(consumer, 3)] == numbered(3)
    assert consumer.end_offset(place) == 3


@pytest.mark.long
def test_idempotent_producer_writes_once_after_many_lost_replies(
    proxy: Proxy, connect: ClientFactory, broker: RunningBroker, topic: Topic, needs: Callable[[str], None]
) -> None:
    needs(IDEMPOTENCE)
    name = topic(partitions=2)
    producer = connect.producer(proxy.bootstrap, idempotent=True, batch_bytes=600)
    producer.send(name, b"value-0", partition=0).result()
    producer.send(name, b"value-0", partition=1).result()
    for after in (0, 2, 3, 9, 20):
        proxy.drop_reply(PRODUCE, after)
    pending = [producer.send(name, value, partition=partition) for value in numbered(1_500)[1:] for partition in (0, 1)]
    producer.flush()
    for each in pending:
        each.result()
    assert proxy.dropped == 5, "too few requests for the losses that were ordered"
    for partition in (0, 1):
        consumer = connect.consumer(broker.bootstrap, assign=[Place(name, partition)])
        assert [record.value for record in collect(consumer, 1_500)] == numbered(1_500)
        assert consumer.end_offset(Place(name, partition)) == 1_500


def test_non_idempotent_producer_duplicates_after_lost_reply(
    proxy: Proxy, connect: ClientFactory, broker: RunningBroker, topic: Topic
) -> None:
    """A non-idempotent producer retries after a lost reply, so delivery is at least once."""
    place = Place(topic(), 0)
    producer = connect.producer(proxy.bootstrap)
    producer.send(place.topic, b"value-0").result()
    proxy.drop_reply(PRODUCE)
    producer.send(place.topic, b"value-1").result()
    assert proxy.dropped == 1
    records = collect(connect.consumer(broker.bootstrap, assign=[place]), 3)
    assert [record.value for record in records] == [b"value-0", b"value-1", b"value-1"]


def test_consumer_continues_after_lost_fetch_replies(
    proxy: Proxy, connect: ClientFactory, broker: RunningBroker, topic: Topic
) -> None:
    place = Place(topic(), 0)
    producer = connect.producer(broker.bootstrap, batch_bytes=2_000)
    send_all(producer, place.topic, numbered(1_000))
    for after in (1, 2):
        proxy.drop_reply(FETCH, after)
    consumer = connect.consumer(proxy.bootstrap, assign=[place], partition_bytes_max=4_000, poll_records_max=50)
    assert [record.value for record in collect(consumer, 1_000)] == numbered(1_000)
    assert proxy.dropped == 2


def test_clients_reconnect_after_cut_connections(
    proxy: Proxy, connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    place = Place(topic(), 0)
    producer = connect.producer(proxy.bootstrap)
    consumer = connect.consumer(proxy.bootstrap, place.topic, group=name("group"), session_ms=4 * broker.session_ms)
    for round_number in range(4):
        if round_number:
            assert proxy.cut() > 0
        values = numbered(20, f"round-{round_number}")
        send_all(producer, place.topic, values)
        assert [record.value for record in collect(consumer, 20)] == values
        consumer.commit()
    assert consumer.committed(place) == 80
