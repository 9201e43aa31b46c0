"""`flush` against a producer whose batches are split under way, and producers that are closed
while their broker is away.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError, UnknownError

import kqueue
from kqueue.client import kafka_python


class Producer:
    """Ends `failures` flushes with UnknownError, as kafka-python does while it splits a batch."""

    def __init__(self, failures: int, timeout_ms: int = 60_000) -> None:
        self.config = {"delivery_timeout_ms": timeout_ms}
        self.failures = failures
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1
        if self.flushes <= self.failures:
            raise UnknownError


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for; none is made, and the clock advances by them."""
    asked: list[float] = []
    monkeypatch.setattr(kafka_python, "time", SimpleNamespace(sleep=asked.append))
    monkeypatch.setattr(kafka_python, "monotonic_s", lambda: sum(asked))
    return asked


def test_a_flush_is_repeated_while_a_batch_is_split(pauses: list[float]) -> None:
    producer: Any = Producer(failures=2)
    kafka_python.flush(producer)
    assert producer.flushes == 3
    assert pauses == [kafka_python.FLUSH_RETRY_S] * 2


def test_the_error_is_raised_after_the_delivery_timeout(pauses: list[float]) -> None:
    producer: Any = Producer(failures=1000, timeout_ms=50)
    with pytest.raises(UnknownError):
        kafka_python.flush(producer)
    assert sum(pauses) > 0.05


@pytest.fixture
def deserted() -> KafkaProducer:
    """A producer with a record that its broker can't confirm any more."""
    with kqueue.Broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=60_000)
        producer.send("orders", b"a")
    return producer


def test_an_exception_of_the_block_stays_what_it_is_if_the_broker_is_away(deserted: KafkaProducer) -> None:
    with pytest.raises(KeyboardInterrupt), kafka_python.closed_at_end(deserted, 0.05):
        raise KeyboardInterrupt
    deserted.close()  # as its destructor does; it is closed, so that this returns


def test_records_that_are_not_confirmed_in_time_are_an_error(deserted: KafkaProducer) -> None:
    with pytest.raises(KafkaTimeoutError), kafka_python.closed_at_end(deserted, 0.05):
        pass
    deserted.close()


def test_sent_records_are_confirmed_at_the_end_of_the_block() -> None:
    with kqueue.Broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=60_000)
        with kafka_python.closed_at_end(producer, 10):
            sent = producer.send("orders", b"a")
        assert sent.succeeded()
