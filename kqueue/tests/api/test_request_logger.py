from __future__ import annotations

import logging
import random
import struct
from typing import Any

import pytest

from kqueue.api import handler_table
from kqueue.api.request_context import RequestContext
from kqueue.api.request_logger import RequestLogger
from kqueue.api.slices import NO_RESPONSE
from kqueue.base.errors import UnknownTopicOrPartition
from kqueue.base.log_event import event_of, plain_fields
from kqueue.broker.purgatory import DelayedOperation
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.tables import for_each
from kqueue.wire.messages.fetch import FetchRequest


class Connection:
    def __init__(self) -> None:
        self.address = "10.0.0.7:40404"
        self.arrived_ms = 0.0

    def take_arrival_ms(self) -> float:
        return self.arrived_ms


class Logged:
    """A log with a clock of its own, around handlers that return what they are told."""

    def __init__(self, caplog: pytest.LogCaptureFixture, *, slow_ms: float = 100, sample: float = 0.0) -> None:
        caplog.set_level(logging.INFO, "kqueue.requests")
        caplog.clear()  # of the rows before it
        self._caplog = caplog
        self.clock = ManualClock()
        self.clock.advance(1000)
        self.log = RequestLogger(self.clock, random.Random(7), slow_ms=slow_ms, sample=sample)
        self.connection = Connection()

    def handle(self, name: str, result: Any, *, request: Any = None, ms: float = 0.0, frame: bytes = b"") -> Any:
        def handle(request: Any, context: RequestContext) -> Any:
            self.clock.advance(ms)
            if isinstance(result, Exception):
                raise result
            return result

        self.log.begin(memoryview(frame or struct.pack(">hhi", 3, 12, 77)), self.connection)
        context: Any = RequestContext(None, 12, "me", "/10.0.0.7", "INSIDE", self.connection)  # type: ignore[arg-type]
        return self.log.logged(handler_table.load(name), handle)(request, context)

    def lines(self, event: str = "request.slow") -> list[dict[str, Any]]:
        return [dict(plain_fields(record)) for record in self._caplog.records if event_of(record) == event]


def test_a_slow_request_has_one_line_that_says_whose_it_was(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    logged.connection.arrived_ms = logged.clock.monotonic_ms() - 50
    assert logged.handle("metadata", "response", ms=120) == "response"
    assert logged.lines() == [
        {
            "api": "Metadata",
            "version": 12,
            "connection": "10.0.0.7:40404",
            "client_id": "me",
            "principal": "User:ANONYMOUS",
            "listener": "INSIDE",
            "correlation_id": 77,
            "took_ms": 170,
            "queued_ms": 50,
            "handled_ms": 120,
            "waited_ms": 0,
        }
    ]
    assert caplog.messages == [
        (
            "Metadata version 12 of 10.0.0.7:40404 (client id 'me', User:ANONYMOUS, listener INSIDE, "
            "correlation id 77) took 170.0 ms: 50.0 queued, 120.0 handled, 0.0 waited"
        )
    ]


def test_a_request_at_the_bound_is_not_slow(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    logged.handle("metadata", "response", ms=100)
    assert logged.lines() == []


def test_bytes_that_arrive_slowly_count(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    logged.connection.arrived_ms = logged.clock.monotonic_ms() - 200
    logged.handle("metadata", "response")
    assert [line["queued_ms"] for line in logged.lines()] == [200]


def test_a_produce_that_waits_for_replicas_is_slow(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    results: list[Any] = [None, "response"]
    operation = logged.handle("produce", DelayedOperation((), None, lambda expired: results.pop(0)), ms=1)
    logged.clock.advance(200)
    assert operation.try_complete(False) is None
    logged.clock.advance(100)
    assert operation.try_complete(False) == "response"
    (line,) = logged.lines()
    assert (line["api"], line["took_ms"], line["handled_ms"], line["waited_ms"]) == ("Produce", 301, 1, 300)


def waited(logged: Logged, name: str, request: Any, ms: float) -> None:
    operation = logged.handle(name, DelayedOperation((), None, lambda expired: "response"), request=request)
    logged.clock.advance(ms)
    operation.try_complete(True)


@for_each(
    "name, request_, ms, is_slow",
    [
        ("fetch", FetchRequest(max_wait_ms=500), 500, False),
        ("fetch", FetchRequest(max_wait_ms=500), 600, False),
        ("fetch", FetchRequest(max_wait_ms=500), 601, True),
        ("fetch", FetchRequest(max_wait_ms=0), 101, True),
        ("join_group", None, 60_000, False),
        ("sync_group", None, 60_000, False),
        ("heartbeat", None, 101, True),
    ],
)
def test_a_wait_that_the_client_wishes_does_not_count(
    name: str, request_: Any, ms: float, is_slow: bool, caplog: pytest.LogCaptureFixture
) -> None:
    logged = Logged(caplog)
    waited(logged, name, request_, ms)
    assert bool(logged.lines()) == is_slow


def test_work_of_a_rebalance_counts(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    logged.handle("join_group", "response", ms=101)
    assert len(logged.lines()) == 1


def test_what_replaces_an_operation_ends_the_request(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    second: DelayedOperation[Any] = DelayedOperation((), None, lambda expired: "response")
    operation = logged.handle("produce", DelayedOperation((), None, lambda expired: second))
    logged.clock.advance(60)
    next_ = operation.try_complete(False)
    logged.clock.advance(60)
    assert logged.lines() == []
    assert next_.try_complete(False) == "response"
    assert [line["waited_ms"] for line in logged.lines()] == [120]


def fail(expired: bool) -> Any:
    raise UnknownTopicOrPartition("t")


def test_requests_that_fail_have_a_line(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    with pytest.raises(UnknownTopicOrPartition):
        logged.handle("metadata", UnknownTopicOrPartition("t"), ms=101)
    operation = logged.handle("produce", DelayedOperation((), None, fail))
    logged.clock.advance(101)
    with pytest.raises(UnknownTopicOrPartition):
        operation.try_complete(False)
    assert [line["api"] for line in logged.lines()] == ["Metadata", "Produce"]


@for_each("result", [None, NO_RESPONSE])
def test_requests_without_a_response_have_a_line(result: Any, caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    logged.handle("produce", result, ms=101)
    assert len(logged.lines()) == 1


@for_each("sample, bounds", [(0.0, (0, 0)), (0.1, (60, 140)), (1.0, (1000, 1000))])
def test_a_sample_is_logged(sample: float, bounds: tuple[int, int], caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog, slow_ms=-1, sample=sample)
    for _ in range(1000):
        logged.handle("metadata", "response")
    assert bounds[0] <= len(logged.lines("request.sampled")) <= bounds[1]
    assert logged.lines() == []


def test_a_slow_request_of_the_sample_has_both_lines(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog, sample=1.0)
    logged.handle("metadata", "response", ms=101)
    assert len(logged.lines()) == len(logged.lines("request.sampled")) == 1


@for_each("slow_ms, sample, is_active", [(-1, 0.0, False), (0, 0.0, True), (-1, 0.01, True)])
def test_it_is_active_if_a_setting_asks_for_it(slow_ms: float, sample: float, is_active: bool) -> None:
    assert RequestLogger(ManualClock(), random.Random(), slow_ms=slow_ms, sample=sample).is_active == is_active


def test_a_frame_that_is_too_short_has_no_correlation_id(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    logged.handle("metadata", "response", ms=101, frame=b"\0\3")
    assert [line["correlation_id"] for line in logged.lines()] == [0]


def test_a_long_client_id_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(caplog)
    context: Any = RequestContext(None, 12, "x\n" * 16_000, "/10.0.0.7", "INSIDE", None)  # type: ignore[arg-type]
    logged.clock.advance(1)
    logged.log.logged(handler_table.load("metadata"), lambda request, call: logged.clock.advance(101))(None, context)
    assert len(caplog.messages[0]) < 400
    assert "\n" not in caplog.messages[0]
    assert len(logged.lines()[0]["client_id"]) < 1100
