"""The ACLs of a cluster, in its metadata store: one entry each, under an id made from its content.

All brokers observe them. A broker reads them before it serves; while they can't be read its
authorizer denies. Durability: a change is on disk when its promise is done. Crash: of a request
with many ACLs the first `COMMIT_COUNT`, or any multiple of it, may be stored. Source: Kafka's
AclControlManager.

What other brokers changed comes by refreshes, thousands of entries at once after a time without the
store. Those are read in slices, and take effect all at once: until then the entries before decide,
as they did before the refresh.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from kqueue.base import events
from kqueue.base.errors import Conflict, CorruptData, KqueueError, StorageFailed
from kqueue.base.promise import Promise
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.access.security_keys import ACLS_PREFIX
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.security.acls import AclBinding, AclFilter, AclIndex, binding_of_json

PREFIX = ACLS_PREFIX
logger = logging.getLogger("kqueue.security")
COMMIT_COUNT = 1000
"""Entries that one commit changes at most."""
AT_ONCE_MAX = 2000
"""Changed entries that are read in one turn; 10 µs each."""
ATTEMPTS_MAX = 20
"""Commits of one change, of which another broker may be the first each time."""


class Acls:
    """The stored ACLs, as of the last commit or refresh. `index`: them for look-ups.

    Args: slices: reads many changes at once; None: they are read in one turn.
    """

    _metadata: MetadataCache

    def __init__(self, slices: SliceQueue | None = None) -> None:
        self._slices = slices
        self._waiting: deque[Mapping[str, bytes | None]] = deque()  # changes that are read in slices
        self._then: list[Callable[[], None]] = []  # what waits for them
        self.index = AclIndex()
        self.index.is_complete = False
        self._by_id: dict[str, AclBinding] = {}
        self._unreadable: set[str] = set()

    def load(self, metadata: MetadataCache) -> None:
        """Take over what the metadata cache has loaded, and follow its changes. Call it once.

        Raises: StorageFailed: an entry can't be read; to serve without it could allow what it
            denies.
        """
        self._metadata = metadata
        try:
            self._apply(metadata.with_prefix(PREFIX))
        except CorruptData as error:
            raise StorageFailed(str(error)) from error
        metadata.observe(PREFIX, self._changed)

    def _changed(self, changed: Mapping[str, bytes | None]) -> None:
        if self._slices is None or not (self._waiting or len(changed) > AT_ONCE_MAX):
            self._apply(changed)
            return
        self._waiting.append(changed)
        if len(self._waiting) == 1:
            self._slices.add(self._apply_waiting())

    def _apply_waiting(self) -> SlicedWork[None]:
        try:
            yield from self._read_waiting()
        except Exception:
            self.index.is_complete = False  # what is not known must not allow anything
            raise
        then, self._then = self._then, []
        for call in then:
            call()

    def _read_waiting(self) -> SlicedWork[None]:
        while self._waiting:
            by_id, unreadable = dict(self._by_id), set(self._unreadable)
            for acl_id, value in self._waiting[0].items():
                by_id.pop(acl_id, None)
                unreadable.discard(acl_id)
                if value is not None:
                    try:
                        by_id[acl_id] = binding_of_json(value)
                    except CorruptData as error:
                        unreadable.add(acl_id)
                        events.ACLS_UNREADABLE.log(
                            logger, "a change of the ACLs can't be applied, so they deny everything: %s", error=error
                        )
                yield None
            index = AclIndex()
            for binding in by_id.values():
                index.add(binding)
                yield None
            self._by_id, self._unreadable = by_id, unreadable
            self.index.swap(index)
            self.index.is_complete = not unreadable
            self._waiting.popleft()

    def _apply(self, changed: Mapping[str, bytes | None]) -> None:
        error: CorruptData | None = None
        for acl_id, value in changed.items():
            self._unreadable.discard(acl_id)
            former = self._by_id.pop(acl_id, None)
            if former is not None:
                self.index.discard(former)
            if value is None:
                continue
            try:
                binding = binding_of_json(value)
            except CorruptData as unreadable:
                error = unreadable
                self._unreadable.add(acl_id)
                continue
            self._by_id[acl_id] = binding
            self.index.add(binding)
        self.index.is_complete = not self._unreadable
        if error is not None:
            raise error

    def find(self, acl_filter: AclFilter) -> SlicedWork[list[AclBinding]]:
        """Return the ACLs that a filter finds, in the order in which they became known; yields
        after each ACL.
        """
        bindings = []
        for binding in list(self.index):
            if acl_filter.matches(binding):
                bindings.append(binding)
            yield None
        return bindings

    def store(self, entries: Mapping[str, bytes]) -> Promise[None]:
        """Store checked ACLs, as `stored_form` has them; those that are stored already stay.

        Raises (by the promise): StorageFailed, Conflict.
        """
        return self._change("create ACLs", entries)

    def delete(self, bindings: Iterable[AclBinding]) -> Promise[None]:
        """Delete ACLs; those that are gone already stay so. Raises as `store`."""
        return self._change("delete ACLs", dict.fromkeys(binding.id for binding in bindings))

    def _change(self, what: str, values: Mapping[str, bytes | None]) -> Promise[None]:
        promise: Promise[None] = Promise()
        self._commit(what, values, promise, ATTEMPTS_MAX)
        return promise

    def _commit(self, what: str, values: Mapping[str, bytes | None], promise: Promise[None], attempts: int) -> None:
        """Store what is not so yet, some of it first and the rest after it."""
        pending = ((key, value) for key, value in values.items() if (value is None) == (key in self._by_id))
        puts = {f"{PREFIX}{key}": value for key, value in islice(pending, COMMIT_COUNT)}
        if not puts:
            self._metadata.resolve(promise, None)
            return

        def done(error: KqueueError | None) -> None:
            if error is None:
                self._when_known(lambda: self._commit(what, values, promise, attempts))
            elif isinstance(error, Conflict) and attempts > 1:
                # another broker changed one, which is known now
                self._when_known(lambda: self._commit(what, values, promise, attempts - 1))
            else:
                self._metadata.fail(promise, error)

        self._metadata.commit(what, puts, done)

    def _when_known(self, call: Callable[[], None]) -> None:
        """Call it when all changes that the broker has heard of are in force."""
        if self._waiting:
            self._then.append(call)
        else:
            call()


def stored_form(binding: AclBinding) -> dict[str, bytes]:
    """Return what is stored of an ACL, by its id."""
    return {binding.id: binding.to_json().encode()}
