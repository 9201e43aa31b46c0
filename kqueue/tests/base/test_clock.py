from __future__ import annotations

import time

import pytest

from kqueue.base.clock import OffsetClock, SystemClock

DAY_MS = 86_400_000


def test_the_wall_clock_counts_milliseconds_since_1970() -> None:
    assert abs(SystemClock().wall_ms() - time.time() * 1000) < 1000


def test_the_steady_clock_counts_milliseconds_and_never_goes_back() -> None:
    clock = SystemClock()
    start = clock.monotonic_ms()
    again = time.monotonic() * 1000
    assert start <= again
    assert again - start < 1000


def test_an_offset_clock_runs_as_the_machines_until_it_is_advanced() -> None:
    clock = OffsetClock()
    assert abs(clock.wall_ms() - time.time() * 1000) < 1000
    assert abs(clock.monotonic_ms() - time.monotonic() * 1000) < 1000


def test_a_frozen_clock_stands_and_resumes_from_where_it_was_moved_to() -> None:
    clock = OffsetClock()
    before_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
    with clock.frozen():
        held_ms, held_wall_ms = clock.monotonic_ms(), clock.wall_ms()
        assert held_ms >= before_ms
        clock.move_to(held_ms + 0.25)
        clock.move_to(held_ms + DAY_MS)
        assert (clock.monotonic_ms(), clock.wall_ms()) == (held_ms + DAY_MS, held_wall_ms + DAY_MS)
    assert 0 <= clock.monotonic_ms() - held_ms - DAY_MS < 1000
    assert 0 <= clock.wall_ms() - wall_ms - DAY_MS < 1000
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
