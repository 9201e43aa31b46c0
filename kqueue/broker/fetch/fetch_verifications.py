"""Verifies the checksums of what a fetch has read, before it is served."""

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
    """The verifications that one request waits for; their ends wake the partitions.

    `deadline_ms`: later than that of the client if it must be: an empty response would say that
    there are no records.
    """

    __slots__ = ("_purgatory", "_running", "deadline_ms", "failed")

    def __init__(self, waiting: Purgatory, deadline_ms: float) -> None:
        self._purgatory = waiting
        self._running: set[Key] = set()
        self.deadline_ms = deadline_ms
        self.failed: dict[Key, KqueueError] = {}

    def start(self, result: FetchResult) -> None:
        """Verify what was read unverified, unless that is under way."""
        for partition, key, check in result.verifications():
            if key not in self._running:
                self._running.add(key)
                partition.start_check(check, partial(self._verified, partition, key))

    def _verified(self, partition: Partition, key: Key, error: KqueueError | None) -> None:
        self._running.discard(key)
        if error is not None:
            self.failed[key] = error
        self._purgatory.wake(partition)
