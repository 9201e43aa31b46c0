"""The ACLs of a cluster, in its metadata store: one entry each, under an id made from its content.

All brokers observe them. A broker reads them before it serves; while they can't be read its
authorizer denies. Durability: a change is on disk when its promise is done. Crash: of a request
with many ACLs the first `COMMIT_COUNT`, or any multiple of it, may be stored. Source: Kafka's
AclControlManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from kqueue.base.errors import Conflict, CorruptData, KqueueError, StorageFailed
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.metadata_cache import MetadataCache
from kqueue.broker.security_keys import ACLS_PREFIX
from kqueue.security.acls import AclBinding, AclFilter, AclIndex, binding_of_json

PREFIX = ACLS_PREFIX
COMMIT_COUNT = 1000
"""Entries that one commit changes at most."""
ATTEMPTS_MAX = 20
"""Commits of one change, of which another broker may be the first each time."""


class Acls:
    """The stored ACLs, as of the last commit or refresh. `index`: them for look-ups."""

    _metadata: MetadataCache

    def __init__(self) -> None:
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
        metadata.observe(PREFIX, self._apply)

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
        found = []
        for binding in list(self.index):
            if acl_filter.matches(binding):
                found.append(binding)
            yield None
        return found

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
                self._commit(what, values, promise, attempts)
            elif isinstance(error, Conflict) and attempts > 1:
                self._commit(what, values, promise, attempts - 1)  # another broker changed one, which is known now
            else:
                self._metadata.fail(promise, error)

        self._metadata.commit(what, puts, done)


def stored_form(binding: AclBinding) -> dict[str, bytes]:
    """Return what is stored of an ACL, by its id."""
    return {binding.id: binding.to_json().encode()}
