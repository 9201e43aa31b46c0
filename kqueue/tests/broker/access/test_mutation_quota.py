"""Rates over time are in `test_client_quotas`."""

from __future__ import annotations

import pytest

from kqueue.base.errors import ThrottlingQuotaExceeded
from kqueue.base.rate_limiter import RateLimiter
from kqueue.base.settings import INT_MAX
from kqueue.broker.access.mutation_quota import MutationQuota
from kqueue.testing.manual_clock import ManualClock


def limiter(per_second: float, burst: float) -> RateLimiter:
    return RateLimiter(per_second, ManualClock(), burst)


def test_without_a_quota_nothing_is_counted() -> None:
    quota = MutationQuota(None, is_strict=True)
    quota.count(10**9)
    assert not quota.is_bounded
    assert quota.throttle_ms == 0


def test_a_strict_one_refuses_what_comes_after_the_excess() -> None:
    quota = MutationQuota(limiter(1, 2), is_strict=True)
    quota.count(4)
    assert quota.throttle_ms == 0
    with pytest.raises(ThrottlingQuotaExceeded, match="again in 2000 ms"):
        quota.count(1)
    assert quota.throttle_ms == 2000


def test_the_other_holds_the_client_back() -> None:
    quota = MutationQuota(limiter(1, 2), is_strict=False)
    quota.count(4)
    assert quota.throttle_ms == 2000


def test_throttle_of_a_tiny_quota_is_capped_at_int_max() -> None:
    quota = MutationQuota(limiter(1e-12, 1), is_strict=False)
    quota.count(3)
    assert quota.throttle_ms == INT_MAX
