"""Producer ids: allocated from blocks of 1000, one stored number each.

Crash: the remaining ids of a block are never used. No id is allocated twice, because a block is
stored before its first id is allocated, by a commit that fails if another broker was first. The
record names the broker, so that a commit of unknown outcome is not taken for that of another one.
Source: KIP-98, Kafka's ProducerIdManager, ProducerIdsRecord.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable

from kqueue.base.errors import Conflict, KqueueError
from kqueue.base.issued_ids import IssuedIds
from kqueue.base.promise import Promise
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.purgatory import DelayedOperation, Purgatory

KEY = "/producer_ids"
BLOCK_COUNT = 1000
ATTEMPTS_MAX = 20
"""Commits of one block, of which another broker may be the first each time."""


class ProducerIds:
    """Allocates ids that are unique in the cluster for ever."""

    def __init__(self, metadata: MetadataCache, node_id: int, issued: IssuedIds | None = None) -> None:
        """Args: issued: what brokers of this process have issued, whose data may be older."""
        self._metadata = metadata
        self._node_id = node_id
        self._issued = issued or IssuedIds()
        self._next = self._end = 0
        self._pending: deque[Promise[int]] = deque()

    def allocate(self) -> Promise[int]:
        """Return the promise of a new id, done at once while the block lasts.

        Raises (by the promise): StorageFailed, Conflict: a block could not be stored.
        """
        promise: Promise[int] = Promise()
        if self._next < self._end and not self._pending:
            promise.resolve(self._next_id())
            return promise
        self._pending.append(promise)
        if len(self._pending) == 1:
            self._reserve()
        return promise

    def _next_id(self) -> int:
        self._next += 1
        return self._next - 1

    def _reserve(self, attempts: int = ATTEMPTS_MAX) -> None:
        entry = self._metadata.get(KEY)
        start = self._issued.reserve_producer_ids(json.loads(entry)["next"] if entry is not None else 0, BLOCK_COUNT)
        value = json.dumps({"next": start + BLOCK_COUNT, "broker": self._node_id}).encode()

        def done(error: KqueueError | None) -> None:
            if isinstance(error, Conflict) and attempts > 1:
                self._reserve(attempts - 1)  # another broker took this block, and the cache knows it now
                return
            if error is None:
                self._next, self._end = start, start + BLOCK_COUNT
            self._serve(error)

        self._metadata.commit("reserve producer ids", {KEY: value}, done)

    def _serve(self, error: KqueueError | None) -> None:
        while self._pending and (error is not None or self._next < self._end):
            promise = self._pending.popleft()
            if error is not None:
                self._metadata.fail(promise, error)
            else:
                self._metadata.resolve(promise, self._next_id())
        if self._pending:
            self._reserve()


class ProducerIdCallbacks:
    """Allocates ids for the transaction coordinator (see `transactions.transaction_log`)."""

    def __init__(self, producer_ids: ProducerIds, purgatory: Purgatory) -> None:
        self._producer_ids = producer_ids
        self._purgatory = purgatory

    def allocate(self, done: Callable[[int | KqueueError], None]) -> None:
        """Call `done` with a new id, or with why there is none; at once while the block lasts."""
        promise = self._producer_ids.allocate()

        def settle() -> None:
            done(promise.result() if promise.error is None else promise.error)

        if promise.done:
            settle()
            return
        operation = DelayedOperation((promise,), None, lambda expired: True if promise.done else None)
        self._purgatory.add(operation, lambda _: settle())
