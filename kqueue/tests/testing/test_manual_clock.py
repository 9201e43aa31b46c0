from __future__ import annotations

import pytest

from kqueue.testing.manual_clock import ManualClock


def test_manual_clock_moves_only_when_advanced() -> None:
    clock = ManualClock(wall_ms=1000)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (1000, 0)
    clock.advance(2.5)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (1002, 2.5)
    clock.set_wall(5)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (5, 2.5)
    with pytest.raises(AssertionError, match="cannot go back"):
        clock.advance(-1)


def test_move_to_is_exact() -> None:
    clock = ManualClock(wall_ms=1000)
    for step in range(1, 101):
        clock.move_to(step * 0.1)
        assert clock.monotonic_ms() == step * 0.1
    assert clock.wall_ms() in (1009, 1010)
    with pytest.raises(AssertionError, match="cannot go back"):
        clock.move_to(9)
