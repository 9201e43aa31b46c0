from __future__ import annotations

import pytest

from kqueue.testing.clock import ManualClock


def test_it_moves_only_when_told() -> None:
    clock = ManualClock(wall_ms=1000)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (1000, 0)
    clock.advance(2.5)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (1002, 2.5)
    clock.set_wall(5)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (5, 2.5)
    with pytest.raises(AssertionError, match="does not go back"):
        clock.advance(-1)
