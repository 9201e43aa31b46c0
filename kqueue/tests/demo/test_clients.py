from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from kqueue.demo import clients
from kqueue.demo.clients import PARTITIONS, TOPIC, DemoFailed
from kqueue.demo.delivery_tracker import DeliveryTracker
from kqueue.demo.flights import Flight

COUNT = 3000


def flights() -> Iterator[Flight]:
    for row in range(COUNT):
        yield Flight(row, b"k%d" % (row % 50), b'{"row":%d,"text":"%s"}' % (row, b"x" * 50))


def quiet(count: int) -> None:
    pass


@pytest.fixture
def demo_topic(bootstrap: str) -> Iterator[str]:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([TOPIC], raise_errors=False)
        admin.delete_groups([clients.GROUP])
        clients.create_topic(bootstrap)
        yield bootstrap
        admin.delete_topics([TOPIC], raise_errors=False)


def test_send_read_half_and_read_on(demo_topic: str) -> None:
    tracker = DeliveryTracker()
    seen: list[int] = []
    clients.send(demo_topic, flights(), tracker, seen.append)
    assert (tracker.sent, seen[-1]) == (COUNT, COUNT)
    assert clients.stored(demo_topic) == COUNT
    before = clients.read(demo_topic, tracker, quiet, until=COUNT // 2)
    assert COUNT // 2 <= before.count == tracker.read <= COUNT
    after = clients.read(demo_topic, tracker, quiet, until=None)
    assert after.began_at == before.count
    assert before.count + after.count == COUNT
    assert tracker.differences() == []
    assert tracker.keys == 50


def test_records_that_were_never_sent_are_found(demo_topic: str) -> None:
    tracker = DeliveryTracker()
    clients.send(demo_topic, flights(), tracker, quiet)
    producer = KafkaProducer(bootstrap_servers=demo_topic)
    producer.send(TOPIC, b'{"row":7,', b"k7")
    producer.flush()
    producer.close()
    clients.read(demo_topic, tracker, quiet, until=None)
    assert clients.stored(demo_topic) == COUNT + 1
    assert "1 flights were read more than once" in tracker.differences()


def test_records_refused_by_the_broker_fail_the_demo(
    bootstrap: str, fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "TOPIC", fresh)
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({fresh: {"num_partitions": PARTITIONS, "configs": {"max.message.bytes": "100"}}})
    with pytest.raises(DemoFailed, match=r"the broker did not take [\d,]+ of 3,000 flights"):
        clients.send(bootstrap, flights(), DeliveryTracker(), quiet)


def test_silence_is_not_waited_out_for_ever(demo_topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "PARTITIONS", 5)  # one more than there are: the group never has them all
    monkeypatch.setattr(clients, "SILENCE_S", 1.0)
    with pytest.raises(DemoFailed, match="did not come together"):
        clients.read(demo_topic, DeliveryTracker(), quiet, until=None)
