"""The acknowledgements in a ShareAcknowledge or ShareFetch: started together, answered together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from kqueue.api.request_context import RequestContext
from kqueue.api.topic_access import TopicAccess
from kqueue.base.errors import InvalidRequest, KqueueError, RequestTimedOut
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.share.share_groups import ShareGroups
from kqueue.security.operations import AclOperation
from kqueue.share.record_state import AcknowledgeType
from kqueue.share.sessions import MemberKey, SessionPartition
from kqueue.share.share_partition import Acknowledgement, check_types

R = TypeVar("R")
BATCHES_PER_STEP = 16
"""Batches that count as one step, of which several may run between two looks at the clock."""
WRITE_TIMEOUT = "share.coordinator.write.timeout.ms"


def share_groups(context: RequestContext) -> ShareGroups:
    """Return the share groups of the broker."""
    return context.broker.share


def acknowledgements_of(topics: Iterable[Any]) -> dict[SessionPartition, list[Acknowledgement]]:
    """Return the acknowledgements of each partition that has some, from a request's topics."""
    return {
        (bytes(topic.topic_id), _index(partition)): [
            Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def _index(partition: Any) -> int:
    index: int = partition.partition_index
    return index


class Acknowledgements:
    """The acknowledgements of one request."""

    def __init__(self, context: RequestContext, member: MemberKey) -> None:
        self._context = context
        self._member = member
        self._promises: dict[SessionPartition, Promise[None]] = {}
        self._others: list[Promise[None]] = []

    def start(
        self, acknowledgements: dict[SessionPartition, list[Acknowledgement]], *, renews: bool
    ) -> SlicedWork[None]:
        """Apply them, in slices; each partition has its own result.

        Args: renews: the request may renew locks.
        """
        access = TopicAccess(self._context, AclOperation.READ)
        for key, batches in acknowledgements.items():
            promise: Promise[None] = Promise()
            self._promises[key] = promise
            done = partial(self._done, promise)
            try:
                denied = access.error(key[0])
                if denied is not None:
                    raise denied
                check_types(batches)
                _check_renewals(batches, renews=renews)
            except KqueueError as error:
                done(error)
            else:
                share_groups(self._context).acknowledge(*self._member, *key, batches, done)
            for _ in range(1 + len(batches) // BATCHES_PER_STEP):
                yield None

    def add(self, promise: Promise[None]) -> None:
        """Let the response wait for `promise` too."""
        self._others.append(promise)

    def _done(self, promise: Promise[None], error: KqueueError | None) -> None:
        broker = self._context.broker
        if error is None:
            promise.resolve(None)
        else:
            promise.fail(error)
        broker.purgatory.wake(promise)

    @property
    def pending(self) -> tuple[Promise[None], ...]:
        """The promises that are not settled."""
        return tuple(each for each in (*self._promises.values(), *self._others) if not each.done)

    def results(self) -> dict[SessionPartition, KqueueError | None]:
        """Return why each partition was refused; None: it was not."""
        late = RequestTimedOut(f"the acknowledgement was not persisted within {WRITE_TIMEOUT}")
        return {key: promise.error if promise.done else late for key, promise in self._promises.items()}

    def wait(self, respond: Callable[[], R | DelayedOperation[R]]) -> R | DelayedOperation[R]:
        """Return `respond()` once all is decided, or the timeout for writes is over."""
        pending = self.pending
        if not pending:
            return respond()
        deadline_ms = self._context.deadline_ms(self._context.broker.config[WRITE_TIMEOUT])
        return DelayedOperation(
            pending, deadline_ms, lambda expired: respond() if expired or all(each.done for each in pending) else None
        )


def _check_renewals(batches: Sequence[Acknowledgement], *, renews: bool) -> None:
    if not renews and any(AcknowledgeType.RENEW in batch.types for batch in batches):
        raise InvalidRequest("a lock is renewed by a request of version 2 with is_renew_ack only")
