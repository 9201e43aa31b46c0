"""Producer ids: handed out from blocks, so that a stored number stands in for a thousand of them.

Crash: at most the rest of a block is never used; no id is given twice, because a block is stored
before its first id is given. Source: KIP-98, Kafka's ProducerIdManager.
"""

from __future__ import annotations

import json
from collections import deque

from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.broker.metadata_cache import MetadataCache

KEY = "/producer_ids"
BLOCK_COUNT = 1000


class ProducerIds:
    """Gives every idempotent producer a number that nobody else on this cluster has or had."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._next = self._end = 0
        self._asking: deque[Promise[int]] = deque()

    def allocate(self) -> Promise[int]:
        """A new id; the promise is done at once while a block lasts. Fails with StorageFailed when a
        block can't be stored.
        """
        promise: Promise[int] = Promise()
        if self._next < self._end and not self._asking:
            promise.resolve(self._take())
            return promise
        self._asking.append(promise)
        if len(self._asking) == 1:
            self._reserve()
        return promise

    def _take(self) -> int:
        self._next += 1
        return self._next - 1

    def _reserve(self) -> None:
        entry = self._metadata.get(KEY)
        start = json.loads(entry)["next"] if entry is not None else 0
        value = json.dumps({"next": start + BLOCK_COUNT}).encode()

        def done(error: KqueueError | None) -> None:
            if error is None:
                self._next, self._end = start, start + BLOCK_COUNT
            self._serve(error)

        self._metadata.commit("reserve producer ids", {KEY: value}, done)

    def _serve(self, error: KqueueError | None) -> None:
        while self._asking and (error is not None or self._next < self._end):
            promise = self._asking.popleft()
            if error is not None:
                self._metadata.fail(promise, error)
            else:
                self._metadata.resolve(promise, self._take())
        if self._asking:
            self._reserve()
