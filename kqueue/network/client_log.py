"""Rate-limited log lines about clients, so that a hostile client can't fill the disk with them."""

from __future__ import annotations

import logging
from collections import OrderedDict

from kqueue.base.clock import Clock
from kqueue.base.log_event import LogEvent
from kqueue.base.rate_limiter import RateLimiter
from kqueue.base.text import counted


class ClientLog:
    """Logs lines that clients cause, with one rate limit per address and one for all addresses.

    Limits per address keep one client's lines from hiding those of the others. The next line
    reports how many were left out.
    """

    ADDRESSES_MAX = 1000

    def __init__(self, logger: logging.Logger, clock: Clock, *, per_second: float = 10, burst: float = 100) -> None:
        self._logger = logger
        self._clock = clock
        self._per_second = per_second
        self._burst = burst
        self._all = RateLimiter(per_second * 10, clock, burst * 10)
        self._by_address: OrderedDict[str, RateLimiter] = OrderedDict()
        self._left_out = 0

    def log(
        self,
        event: LogEvent,
        address: str,
        text: str,
        /,
        *,
        exc_info: BaseException | None = None,
        **fields: object,
    ) -> None:
        """Log one line about the client at `address` (host:port); the rest as of `LogEvent.log`."""
        limiter = self._limiter_of(address.rpartition(":")[0])
        if limiter.wait_ms() or self._all.wait_ms():
            self._left_out += 1
            return
        limiter.count()
        self._all.count()
        if self._left_out:
            text += " (%s like this left out)"
            fields["left_out"] = counted(self._left_out, "line")
            self._left_out = 0
        event.log(self._logger, text, exc_info=exc_info, **fields)

    def _limiter_of(self, host: str) -> RateLimiter:
        limiter = self._by_address.pop(host, None) or RateLimiter(self._per_second, self._clock, self._burst)
        self._by_address[host] = limiter
        if len(self._by_address) > self.ADDRESSES_MAX:
            self._by_address.popitem(last=False)
        return limiter
