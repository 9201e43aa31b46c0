"""The delay of the answer to a failed authentication, by the address that it came from."""

from __future__ import annotations

from collections import OrderedDict

from kqueue.base.clock import Clock

ADDRESSES_MAX = 10_000
FORGET_MS = 60_000
"""An address without a failure for so long begins again with none."""
DELAY_MS_MAX = 5_000


class AuthenticationFailures:
    """Counts failures by address. The n-th within a minute waits n times the delay of the setting,
    at most `DELAY_MS_MAX` or that delay. Only failures wait: clients behind one address do not slow
    down each other's successes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_address: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def count(self, host: str) -> int:
        """Count one more failure; return the number of those in a row."""
        now_ms = self._clock.monotonic_ms()
        count, last_ms = self._by_address.pop(host, (0, now_ms))
        count = count + 1 if now_ms - last_ms < FORGET_MS else 1
        self._by_address[host] = count, now_ms
        if len(self._by_address) > ADDRESSES_MAX:
            self._by_address.popitem(last=False)
        return count


def delay_ms_of(count: int, base_ms: int) -> int:
    """Return how long the answer to the `count`-th failure waits. `base_ms`:
    connection.failed.authentication.delay.ms.
    """
    return min(count * base_ms, max(DELAY_MS_MAX, base_ms))
