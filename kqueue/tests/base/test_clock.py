from __future__ import annotations

import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import time_machine
from freezegun import freeze_time

from kqueue.base import clock as clock_module
from kqueue.base.clock import OffsetClock, SystemClock, monotonic_ns, monotonic_s, utc_now, wall_ms
from kqueue.tests.tables import for_each

DAY_MS = 86_400_000
SLACK_MS = 3_600_000
"""A machine may stop a test for long, but not for as long as clocks differ here."""
FREEZES: dict[str, Callable[[str], AbstractContextManager[Any]]] = {
    "freezegun": freeze_time,
    "freezegun, ticking": lambda to: freeze_time(to, tick=True),
    "freezegun, stepping": lambda to: freeze_time(to, auto_tick_seconds=15),
    "freezegun, real asyncio": lambda to: freeze_time(to, real_asyncio=True),
    "time-machine": lambda to: time_machine.travel(to, tick=False),
    "time-machine, ticking": time_machine.travel,
}


def test_the_wall_clock_counts_milliseconds_since_1970() -> None:
    before_ms = int(time.time() * 1000)
    assert before_ms <= SystemClock().wall_ms() <= time.time() * 1000


def test_the_steady_clock_counts_milliseconds_and_never_goes_back() -> None:
    clock = SystemClock()
    start = clock.monotonic_ms()
    assert start <= time.monotonic() * 1000 <= clock.monotonic_ms()


def test_without_clock_gettime_the_plain_functions_are_the_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, which has no such function and none of its constants."""
    for name in ("clock_gettime", "clock_gettime_ns", "CLOCK_MONOTONIC", "CLOCK_REALTIME"):
        monkeypatch.delattr(time, name)
    windows: dict[str, Any] = runpy.run_path(str(Path(clock_module.__file__).with_name("clock.py")))
    before_ns, before_s, before_wall_ns = time.monotonic_ns(), time.monotonic(), time.time_ns()
    assert before_ns <= windows["monotonic_ns"]() <= time.monotonic_ns()
    assert before_s <= windows["monotonic_s"]() <= time.monotonic()
    assert before_wall_ns <= windows["_realtime_ns"]() <= time.time_ns()
    assert before_wall_ns // 1_000_000 <= windows["wall_ms"]()


def test_an_offset_clock_runs_as_the_machines_until_it_is_advanced() -> None:
    clock = OffsetClock()
    before_ms, before_wall_ms = time.monotonic() * 1000, int(time.time() * 1000)
    assert before_ms <= clock.monotonic_ms() <= time.monotonic() * 1000
    assert before_wall_ms <= clock.wall_ms() <= time.time() * 1000


def test_a_frozen_clock_stands_and_resumes_from_where_it_was_moved_to() -> None:
    clock = OffsetClock()
    before_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
    with clock.frozen():
        held_ms, held_wall_ms = clock.monotonic_ms(), clock.wall_ms()
        assert held_ms >= before_ms
        clock.move_to(held_ms + 0.25)
        clock.move_to(held_ms + DAY_MS)
        assert (clock.monotonic_ms(), clock.wall_ms()) == (held_ms + DAY_MS, held_wall_ms + DAY_MS)
    assert 0 <= clock.monotonic_ms() - held_ms - DAY_MS < SLACK_MS
    assert 0 <= clock.wall_ms() - wall_ms - DAY_MS < SLACK_MS
    later_ms = clock.monotonic_ms()
    while clock.monotonic_ms() == later_ms:
        pass


def test_the_wall_of_a_held_clock_goes_with_its_steady_side_through_any_steps() -> None:
    clock = OffsetClock()
    with clock.frozen():
        start_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
        for step in range(1, 1001):
            clock.move_to(start_ms + step * 0.7)
        assert abs(clock.wall_ms() - wall_ms - 700) <= 1


def test_an_offset_clock_never_goes_back() -> None:
    clock = OffsetClock()
    with clock.frozen():
        clock.move_to(clock.monotonic_ms() + DAY_MS)
        with pytest.raises(AssertionError, match="does not go back"):
            clock.move_to(clock.monotonic_ms() - 1)
    ahead_ms = clock.monotonic_ms()
    with clock.frozen():  # longer than it is moved by: it is then where it would be by itself
        start_s = time.monotonic()
        while time.monotonic() - start_s < 0.005:
            pass
        clock.move_to(clock.monotonic_ms() + 1)
    assert clock.monotonic_ms() >= ahead_ms + 5
    with pytest.raises(AssertionError, match="freeze it first"):
        clock.move_to(ahead_ms + 2 * DAY_MS)


@for_each("to", ["2020-01-01", "2035-01-01"])
@for_each("freeze", FREEZES.values())
def test_a_test_that_travels_does_not_move_the_clock(
    freeze: Callable[[str], AbstractContextManager[Any]], to: str
) -> None:
    clock, ahead = SystemClock(), OffsetClock()
    start_ms, monotonic_start_ms = wall_ms(), clock.monotonic_ms()
    with freeze(to):
        assert datetime.now().year in (2019, 2020, 2034, 2035), "the test itself has travelled"
        for now_ms in (clock.wall_ms(), ahead.wall_ms(), wall_ms(), utc_now().timestamp() * 1000):
            assert 0 <= now_ms - start_ms < SLACK_MS
        for now_ms in (clock.monotonic_ms(), ahead.monotonic_ms(), monotonic_s() * 1000, monotonic_ns() / 1e6):
            assert 0 <= now_ms - monotonic_start_ms < SLACK_MS
        before_ns = monotonic_ns()
        while monotonic_ns() == before_ns:
            pass
    assert 0 <= wall_ms() - start_ms < SLACK_MS


def test_a_nested_travel_that_is_moved_does_not_move_the_clock() -> None:
    start_ms = wall_ms()
    with time_machine.travel("2020-01-01") as traveller:
        traveller.move_to("2030-01-01")
        with time_machine.travel("2040-01-01"):
            assert 0 <= wall_ms() - start_ms < SLACK_MS
        traveller.shift(1_000)
        assert 0 <= wall_ms() - start_ms < SLACK_MS
    with freeze_time("2020-01-01") as frozen:
        frozen.move_to("2030-01-01")
        assert 0 <= wall_ms() - start_ms < SLACK_MS


def test_a_patched_function_of_time_does_not_move_the_clock() -> None:
    start_ms, start_s = wall_ms(), monotonic_s()
    with mock.patch("time.time_ns", return_value=0), mock.patch("time.clock_gettime_ns", return_value=0):
        assert 0 <= wall_ms() - start_ms < SLACK_MS
    with mock.patch("time.monotonic", return_value=0.0), mock.patch("time.clock_gettime", return_value=0.0):
        assert 0 <= (monotonic_s() - start_s) * 1000 < SLACK_MS


@pytest.mark.long
@for_each("freeze", ["freezegun.freeze_time('2020-01-01')", "time_machine.travel('2020-01-01', tick=False)"])
def test_a_clock_first_imported_while_a_test_travels_shows_the_machines_time(freeze: str) -> None:
    text = f"""
import freezegun, time_machine
with {freeze}:
    from kqueue.base.clock import monotonic_s, utc_now, wall_ms
    print(wall_ms(), utc_now().year > 2020)
    before = monotonic_s()
    while monotonic_s() == before: pass
print(wall_ms())
"""
    start_ms = wall_ms()
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    inside, is_now, after = ran.stdout.split()
    assert start_ms <= int(inside) <= int(after)
    assert is_now == "True"


def test_the_travel_may_end_while_the_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    start_ms, answers = wall_ms(), iter((True, False, True, False, False))
    monkeypatch.setattr(time_machine.escape_hatch, "is_travelling", lambda: next(answers))
    assert 0 <= wall_ms() - start_ms < SLACK_MS
    assert next(answers, None) is None, "it was read again after a travel that ended, or began, meanwhile"
