from __future__ import annotations

import time

from kqueue.base.clock import SystemClock


def test_the_wall_clock_counts_milliseconds_since_1970() -> None:
    assert abs(SystemClock().wall_ms() - time.time() * 1000) < 1000


def test_the_steady_clock_counts_milliseconds_and_never_goes_back() -> None:
    clock = SystemClock()
    start = clock.monotonic_ms()
    again = time.monotonic() * 1000
    assert start <= again
    assert again - start < 1000
