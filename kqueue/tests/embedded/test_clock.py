from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import kqueue
from kqueue.network import advance
from kqueue.tests.tables import for_each
from kqueue.tests.waits import eventually

SLACK = timedelta(minutes=10)  # a machine may stop a test for long


def test_clock_shows_the_time_of_day_in_utc() -> None:
    broker = kqueue.Broker()
    now = broker.clock.now()
    assert now.tzinfo is UTC
    assert abs(now - datetime.now(UTC)) < SLACK
    assert str(now.year) in repr(broker.clock)


@for_each(
    "arguments, passed",
    [
        ({"days": 8}, timedelta(days=8)),
        ({"hours": 1, "minutes": 2, "seconds": 3, "ms": 4}, timedelta(hours=1, minutes=2, seconds=3, milliseconds=4)),
        ({"delta": timedelta(minutes=1)}, timedelta(minutes=1)),
        ({"delta": timedelta(minutes=1), "hours": 1}, timedelta(hours=1, minutes=1)),
        ({"days": 1, "hours": -1}, timedelta(hours=23)),
        ({"minutes": 0.5, "ms": 0.25}, timedelta(seconds=30)),
        ({"days": 365 * 100}, timedelta(days=36500)),
        ({}, timedelta()),
    ],
)
def test_clock_advances_and_continues(arguments: dict[str, Any], passed: timedelta) -> None:
    with kqueue.Broker() as broker:
        before = broker.clock.now()
        broker.clock.advance(**arguments)
        after = broker.clock.now()
        assert passed <= after - before < passed + SLACK
        eventually(lambda: broker.clock.now() > after, "a clock that goes on")


def test_time_never_goes_back_nor_overflows() -> None:
    with kqueue.Broker() as broker:
        before = broker.clock.now()
        for arguments in ({"days": -1}, {"delta": timedelta(hours=-1), "minutes": 59}):
            with pytest.raises(ValueError, match="time does not go back: expected 0 or more, found -"):
                broker.clock.advance(**arguments)
        for days in (365 * 9000, 10**9, 10**300):
            with pytest.raises(ValueError, match="beyond the year 9999"):
                broker.clock.advance(days=days)
        assert broker.clock.now() - before < SLACK


def test_stopped_broker_has_a_time_that_cannot_be_advanced() -> None:
    broker = kqueue.Broker()
    with pytest.raises(RuntimeError, match="the broker is not running"):
        broker.clock.advance(days=1)
    with broker:
        broker.clock.advance(days=1)
    with pytest.raises(RuntimeError, match="the broker is not running"):
        broker.clock.advance(days=1)
    assert broker.clock.now() > datetime.now(UTC) + timedelta(hours=23)


def test_time_continues_after_a_restart(tmp_path: Path) -> None:
    for path in (None, tmp_path):
        with kqueue.Broker(path) as broker:
            clock = broker.clock
            broker.clock.advance(days=1)
            before = broker.clock.now()
            broker.restart()
            assert broker.clock is clock
            assert timedelta() <= broker.clock.now() - before < SLACK
            broker.clock.advance(days=1)
            assert timedelta(days=1) <= broker.clock.now() - before < timedelta(days=1) + SLACK
            before = broker.clock.now()
        with broker:
            assert timedelta() <= broker.clock.now() - before < SLACK


def test_each_broker_has_its_own_time() -> None:
    with kqueue.Broker() as one, kqueue.Broker() as other:
        one.clock.advance(days=1)
        assert one.clock.now() - other.clock.now() > timedelta(hours=23)


def test_concurrent_advances_are_serialised() -> None:
    with kqueue.Broker() as broker, ThreadPoolExecutor(8) as pool:
        before = broker.clock.now()
        for pushed in [pool.submit(broker.clock.advance, days=1) for _ in range(8)]:
            pushed.result(60)
        assert timedelta(days=8) <= broker.clock.now() - before < timedelta(days=8) + SLACK


def test_advance_is_refused_on_the_brokers_own_loop() -> None:
    with kqueue.Broker() as broker:
        refused: list[BaseException] = []
        tried = threading.Event()

        def push_again() -> None:
            try:
                broker.clock.advance(days=1)
            except RuntimeError as error:
                refused.append(error)
            tried.set()

        async def set_timer() -> None:
            inside = broker._server.broker
            inside.scheduler.timers.at(inside.scheduler.clock.monotonic_ms() + 1000, push_again)

        broker._call(set_timer)
        broker.clock.advance(seconds=2)
        assert tried.is_set()
        assert "the broker's own thread" in str(refused[0])


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_advance_by_days_does_not_stop_at_each_second(
    storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = 0
    finish_work = advance._finish_work

    def counted(servers: object) -> None:
        nonlocal stops
        stops += 1
        finish_work(servers)

    monkeypatch.setattr(advance, "_finish_work", counted)
    with kqueue.Broker(tmp_path if storage == "disk" else None) as broker:
        for number in range(10):
            broker.create_topic(f"t{number}", 2)
        broker.clock.advance(days=8)
        broker.clock.advance(days=3650)
    assert stops < 20_000


@for_each(
    "delta, units, message",
    [
        (8, {}, r"delta=8: expected a timedelta, or a unit: advance\(days=8\)"),
        ("8 days", {}, "expected a timedelta"),
        (None, {"days": "8"}, "days='8': expected a number"),
        (None, {"ms": float("nan")}, "ms=nan: expected a finite number"),
        (None, {"weeks": 1}, r"advance\(\) has no argument 'weeks'; did you mean 'days'\? \(there are: days, hours,"),
        (None, {"milliseconds": 1}, "'milliseconds'; did you mean 'ms'"),
        (None, {"hour": 1}, "'hour'; did you mean 'hours'"),
    ],
)
def test_a_time_without_a_unit_is_refused(delta: Any, units: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        kqueue.Broker().clock.advance(delta, **units)
