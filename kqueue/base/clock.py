"""Time is given, never reached for: whoever needs it holds a `Clock`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: the wall's, which people set, and a steady one for timeouts."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC; may jump either way."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds since some start; never goes back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1e6
