"""Stores of these tests with retries."""

from __future__ import annotations

import random

from kqueue.base.clock import SystemClock
from kqueue.tier.stores.address import open_store
from kqueue.tier.stores.retries import RetryingStore, RetryPolicy

PATIENT = RetryPolicy(attempts_max=50, delay_ms=10, delay_max_ms=200, deadline_ms=60_000, failures_max=1000)


def open_retrying(url: str, policy: RetryPolicy = PATIENT) -> RetryingStore:
    """Return the store of a URL, with retries."""
    return RetryingStore(open_store(url), policy, clock=SystemClock(), rng=random.Random(1))
