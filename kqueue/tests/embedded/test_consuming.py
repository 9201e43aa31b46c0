"""Reads of a stock consumer: by offset, by time, with pauses, and from committed offsets.

Source: S4.1 to S4.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import kqueue
from kqueue.tests.waits import HangLimit

START_MS = 1_700_000_000_000
PLACE = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    """Records 0 to 99, ten milliseconds apart."""
    with kqueue.Broker(settings={"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}) as broker:
        broker.create_topic("t")
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(100):
                producer.send("t", b"%d" % number, timestamp_ms=START_MS + number * 10)
        yield broker


@pytest.fixture
def consumer_of(broker: kqueue.Broker) -> Iterator[Callable[..., KafkaConsumer]]:
    opened: list[KafkaConsumer] = []

    def make(**options: object) -> KafkaConsumer:
        defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        opened.append(KafkaConsumer(bootstrap_servers=broker.bootstrap, **{**defaults, **options}))
        return opened[-1]

    yield make
    for consumer in opened:
        consumer.close()


def take(consumer: KafkaConsumer, count: int) -> list[int]:
    """Return the numbers of the next records."""
    return [int(next(consumer).value) for _ in range(count)]


def test_consumer_pauses_and_seeks(consumer_of: Callable[..., KafkaConsumer]) -> None:
    """S4.1, S4.3: a seek back replays, a seek forward skips."""
    consumer = consumer_of(max_poll_records=7)
    consumer.assign([PLACE])
    assert take(consumer, 10) == list(range(10))
    consumer.seek(PLACE, 3)
    assert take(consumer, 3) == [3, 4, 5]
    consumer.seek(PLACE, 90)
    assert take(consumer, 10) == list(range(90, 100))


def test_consumer_starts_at_a_time(consumer_of: Callable[..., KafkaConsumer]) -> None:
    """S4.2: the first record whose time is not before it."""
    consumer = consumer_of()
    consumer.assign([PLACE])
    for after_ms, offset in ((-5, 0), (0, 0), (1, 1), (495, 50), (990, 99)):
        position = consumer.offsets_for_times({PLACE: START_MS + after_ms})[PLACE]
        assert (position.offset, position.timestamp) == (offset, START_MS + offset * 10)
    assert consumer.offsets_for_times({PLACE: START_MS + 991})[PLACE] is None


def test_offsets_are_committed_manually(consumer_of: Callable[..., KafkaConsumer]) -> None:
    """S4.5: the group continues from the committed offset, not from the last read one."""
    first = consumer_of(group_id="by-hand")
    first.subscribe(["t"])
    assert take(first, 20) == list(range(20))
    first.commit()
    assert take(first, 5) == [20, 21, 22, 23, 24]
    first.close()
    second = consumer_of(group_id="by-hand")
    second.subscribe(["t"])
    assert take(second, 3) == [20, 21, 22]


def test_offsets_are_committed_automatically(consumer_of: Callable[..., KafkaConsumer]) -> None:
    """S4.5: every auto.commit.interval.ms, while the consumer polls."""
    consumer = consumer_of(group_id="by-itself", enable_auto_commit=True, auto_commit_interval_ms=20)
    consumer.subscribe(["t"])
    assert take(consumer, 100) == list(range(100))
    limit = HangLimit("a commit")
    while consumer.committed(PLACE) != 100:
        assert consumer.poll(10) == {}
        limit.check()
