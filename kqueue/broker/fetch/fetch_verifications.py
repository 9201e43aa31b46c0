"""Verifies, or reads from the tier, what a fetch has not at hand, before it is served."""

from __future__ import annotations

from functools import partial

from kqueue.base.errors import KqueueError
from kqueue.broker.fetch.fetch_reader import FetchResult
from kqueue.broker.fetch.fetch_sessions import Key
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.replicas.partition import Partition

VERIFICATION_WAIT_MS = 10_000
"""Shortest wait for the verification of checksums, whatever time the client allows."""


class FetchVerifications:
    """The jobs that one request waits for; their ends wake the partitions.

    `deadline_ms`: of verifications; later than that of the client if it must be: an empty response
    would say that there are no records. `tier_deadline_ms`: of reads of the tier, whose next fetch
    finds what was read meanwhile; None: there were none.
    """

    __slots__ = ("_purgatory", "_running", "deadline_ms", "failed", "tier_deadline_ms")

    def __init__(self, waiting: Purgatory, deadline_ms: float) -> None:
        self._purgatory = waiting
        self._running: set[Key] = set()
        self.deadline_ms = deadline_ms
        self.tier_deadline_ms: float | None = None
        self.failed: dict[Key, KqueueError] = {}

    def start(self, result: FetchResult) -> bool:
        """Verify what was read unverified, unless that is under way; return if there is any."""
        is_any = False
        for partition, key, check in result.verifications():
            is_any = True
            if key not in self._running:
                self._running.add(key)
                partition.start_check(check, partial(self._verified, partition, key))
        return is_any

    def start_tiered(self, result: FetchResult, now_ms: float, *, read_committed: bool) -> bool:
        """Read from the tier what is there. Return whether the request may wait for any."""
        is_any = False
        for each in result.to_read_from_tier():
            is_any = True
            if each.partition is not None:
                wait_ms = each.partition.start_tiered_read(
                    each.fetch.offset, each.fetch.max_bytes, read_committed=read_committed
                )
                if self.tier_deadline_ms is None:
                    self.tier_deadline_ms = now_ms + wait_ms
        return is_any and self.tier_deadline_ms is not None and now_ms < self.tier_deadline_ms

    def _verified(self, partition: Partition, key: Key, error: KqueueError | None) -> None:
        self._running.discard(key)
        if error is not None:
            self.failed[key] = error
        self._purgatory.wake(partition)
