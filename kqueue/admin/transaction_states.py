"""States and limits of transactions, and what says that there is none; imports no client."""

from __future__ import annotations

from kqueue.base.errors import KqueueError

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
MAX_TIMEOUT_MINUTES = 15
"""Kafka's transaction.max.timeout.ms, in minutes."""
GRACE_MINUTES = 5
"""Time for the coordinator to abort a transaction that timed out. Source: Kafka's tool."""
MS_PER_MINUTE = 60_000


def is_missing(error: KqueueError) -> bool:
    """Return whether an error says that there is no such transactional id."""
    return getattr(error, "code_name", "") == "TRANSACTIONAL_ID_NOT_FOUND"
