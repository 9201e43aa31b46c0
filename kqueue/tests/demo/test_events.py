from __future__ import annotations

import itertools
import json
from collections import Counter
from datetime import datetime

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError

from kqueue import Broker
from kqueue.demo.events import LATE_MAX_MS, LATE_MIN_MS, Defect, Event, EventKind, events, replay
from kqueue.demo.flights import Flight, Flights


def flight(row: int, *, hour: int = 10, minute: int = 15, delay: int | None = 2) -> Flight:
    time_hour = f"2013-01-01T{hour:02}:00:00Z"
    value = {"origin": "EWR", "dest": "IAH", "time_hour": time_hour, "minute": minute, "dep_delay": delay}
    return Flight(row, b"UA1545", json.dumps(value).encode())


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_an_event_is_told_when_the_flight_leaves() -> None:
    fine = {"late_share": 0.0, "broken_share": 0.0}
    (early, left, cancelled) = events(
        [flight(0), flight(1, delay=None), flight(2, hour=9, minute=58, delay=-5)], **fine
    )  # type: ignore[arg-type]
    assert (early.key, early.send_ms, early.kind) == (b"EWR", ms("2013-01-01T09:53:00Z"), EventKind.VALID)
    assert json.loads(cancelled.value) == {
        "id": 0, "flight": "UA1545", "origin": "EWR", "dest": "IAH", "scheduled": "2013-01-01T10:15:00Z",
        "departed": "2013-01-01T10:17:00Z", "delay_min": 2,
    }  # fmt: skip
    assert (json.loads(left.value)["departed"], left.send_ms) == (None, ms("2013-01-01T10:15:00Z"))


@pytest.mark.long
def test_late_ones_and_broken_ones_come_as_seeded() -> None:
    first, again, other = (
        list(events(itertools.islice(Flights(), 2000), seed=seed, late_share=0.1, broken_share=0.05))
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert [event.send_ms for event in first] == sorted(event.send_ms for event in first)
    counts = Counter(event.kind for event in first)
    assert 150 < counts[EventKind.LATE] < 250
    assert 60 < counts[EventKind.MALFORMED] < 140
    assert {event.harm for event in first if event.kind is EventKind.MALFORMED} == set(Defect)
    for event in first:
        if event.kind is not EventKind.MALFORMED:
            assert event.harm is None
            content = json.loads(event.value)
            lag_ms = event.send_ms - ms(content["departed"] or content["scheduled"])
            assert LATE_MIN_MS <= lag_ms <= LATE_MAX_MS if event.kind is EventKind.LATE else lag_ms == 0


def test_all_of_them_in_order() -> None:
    assert [event.kind for event in events([flight(row) for row in range(3)], late_share=0, broken_share=0)] == [
        EventKind.VALID
    ] * 3
    assert all(
        event.kind is EventKind.MALFORMED
        for event in events([flight(row) for row in range(50)], late_share=1, broken_share=1)
    )


def test_a_share_is_a_share() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        events([], late_share=5)


class Clock:
    """A clock that only `sleep` advances."""

    now_s = 100.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_replayed_in_step_and_counted() -> None:
    told = [
        Event(hour * 3_600_000, b"EWR", b"%d" % hour, kind)
        for hour, kind in enumerate([EventKind.VALID, EventKind.LATE, EventKind.VALID])
    ]
    clock, seen = Clock(), []
    with Broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
        counts = replay(
            producer,
            "events",
            told,
            hours_per_s=0.5,
            progress=seen.append,
            sleep=clock.sleep,
            now_s=lambda: clock.now_s,
        )
        records = broker.topics["events"].records()
        producer.close()
    assert counts == {EventKind.VALID: 2, EventKind.LATE: 1, EventKind.MALFORMED: 0}
    assert clock.now_s == pytest.approx(104)
    assert seen == [3]
    assert [(record.timestamp, record.value) for record in records] == [(0, b"0"), (3_600_000, b"1"), (7_200_000, b"2")]


def test_event_refused_by_the_broker_raises() -> None:
    with Broker() as broker:
        broker.create_topic("events", max_message_bytes=100)
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
        with pytest.raises(KafkaError):
            replay(producer, "events", [Event(0, b"EWR", b"x" * 200, EventKind.VALID)])
        producer.close()
