from __future__ import annotations

import json
from datetime import datetime

from kafka.errors import KafkaError

from kqueue import Broker
from kqueue.demo.events import HOUR_MS, Event
from kqueue.demo.flights import Flight
from kqueue.demo.pipeline.event_sender import TOPIC, EventSender, closing_event
from kqueue.spark.jobs.delay_results import LATENESS_MS
from kqueue.tests.waits import eventually


def test_the_last_event_is_fine_and_so_late_that_every_hour_is_done(told: list[Event]) -> None:
    closing = closing_event(told)
    last_ms = max(event.send_ms for event in told)
    assert closing.send_ms - LATENESS_MS > last_ms
    assert (closing.send_ms - LATENESS_MS) % HOUR_MS == 0
    content = json.loads(closing.value)
    assert content.keys() == json.loads(told[0].value).keys()
    assert round(datetime.fromisoformat(content["scheduled"]).timestamp() * 1000) == closing.send_ms
    assert closing_event([]).send_ms == HOUR_MS + LATENESS_MS


class Few(list[Flight]):
    """A few flights in place of `Flights`."""

    @property
    def count(self) -> int:
        return len(self)


def test_all_is_told_in_order_and_reckoned(flights: list[Flight]) -> None:
    with Broker() as broker:
        broker.create_topic(TOPIC, 1, retention_ms=-1)
        with EventSender(Few(flights), 5, None) as sender:
            sender.start(broker.bootstrap)
            eventually(lambda: sender.truth is not None or sender.error is not None)
        assert sender.error is None
        records = broker.topics[TOPIC].records()
    assert sender.confirmed
    assert (sender.count, sender.sent, len(records)) == (6, 6, 6)
    times = [record.timestamp for record in records]
    assert times == sorted(times)
    assert times[-1] == sender.closing_ms == sender.now_ms
    assert sender.truth is not None
    assert sender.truth.flights + sum(map(len, sender.truth.aside.values())) == 5


def test_sender_stops_in_the_middle_of_a_pause(flights: list[Flight]) -> None:
    with Broker() as broker:
        broker.create_topic(TOPIC, 1, retention_ms=-1)
        with EventSender(Few(flights), None, 1e-6) as sender:  # the second flight would come in some days
            sender.start(broker.bootstrap)
            eventually(lambda: sender.sent == 1)
        assert not sender.confirmed or sender.sent < sender.count


def test_a_failure_is_there_to_be_raised(flights: list[Flight]) -> None:
    with Broker(auto_create_topics_enable=False) as broker:
        broker.create_topic(TOPIC, 1, max_message_bytes=50)
        with EventSender(Few(flights), 1000, None) as sender:
            sender.start(broker.bootstrap)
            eventually(lambda: sender.error is not None)
    assert isinstance(sender.error, KafkaError)
    assert not sender.confirmed
