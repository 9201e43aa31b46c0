"""The changes of topics that one request may make, by the quota of its client."""

from __future__ import annotations

import math

from kqueue.base.errors import ThrottlingQuotaExceeded
from kqueue.base.rate_limiter import RateLimiter
from kqueue.base.settings import INT_MAX


class MutationQuota:
    """Bounds how many partitions one client creates and deletes (KIP-599).

    Strict: what is above the quota is refused. Else it is done, and the client held back.
    """

    def __init__(self, limiter: RateLimiter | None, *, is_strict: bool) -> None:
        self._limiter = limiter
        self._is_strict = is_strict
        self.is_bounded = limiter is not None
        self.throttle_ms = 0
        """For how long the client is held back."""

    def count(self, partitions: int) -> None:
        """Count partitions to be changed. Raises: ThrottlingQuotaExceeded: the client used up what
        it may; nothing is counted.
        """
        limiter = self._limiter
        if limiter is None:
            return
        if self._is_strict and (debt_ms := _rounded(limiter.debt_ms())):
            self.throttle_ms = debt_ms
            raise ThrottlingQuotaExceeded(
                f"the client changes more partitions than controller_mutation_rate allows; it may again in {debt_ms} ms"
            )
        limiter.count(partitions)
        if not self._is_strict:
            self.throttle_ms = _rounded(limiter.debt_ms())


def _rounded(ms: float) -> int:
    return INT_MAX if math.isinf(ms) else min(INT_MAX, int(ms + 0.5))
