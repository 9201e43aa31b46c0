"""`flush` against a producer whose batches are split under way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import UnknownError

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


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for; none is made, and the clock advances by them."""
    asked: list[float] = []
    clock: Any = SimpleNamespace(sleep=asked.append, monotonic=lambda: sum(asked))
    monkeypatch.setattr(kafka_python, "time", clock)
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
