"""The acknowledgements in a ShareAcknowledge or ShareFetch: started together, answered together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kqueue.base.errors import InvalidRequest, KqueueError, RequestTimedOut
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.share.share_groups import ShareGroups
from kqueue.share.config import WRITE_TIMEOUT
from kqueue.share.record_state import AcknowledgeType
from kqueue.share.sessions import MemberKey, SessionPartition, ShareSession
from kqueue.share.share_partition import Acknowledgement, check_types

R = TypeVar("R")
BATCHES_PER_STEP = 16
"""Batches that count as one step, of which several may run between two looks at the clock."""


class ShareAcknowledgements:
    """The acknowledgements of one request, and their results.

    Args:
        refusal: returns why the member may not read a topic, of which it gets the id; None: it may.
    """

    def __init__(self, groups: ShareGroups, member: MemberKey, refusal: Callable[[bytes], KqueueError | None]) -> None:
        self._groups = groups
        self._member = member
        self._refusal = refusal
        self._promises: dict[SessionPartition, Promise[None]] = {}
        self._released: list[Promise[None]] = []

    def start(
        self, acknowledgements: Mapping[SessionPartition, Sequence[Acknowledgement]], *, renews: bool
    ) -> SlicedWork[None]:
        """Apply them, in slices; each partition has its own result.

        Args: renews: the request may renew locks.
        """
        for key, batches in acknowledgements.items():
            promise = self._promises[key] = Promise[None]()
            done = self._groups.settles(promise)
            try:
                refused = self._refusal(key[0])
                if refused is not None:
                    raise refused
                check_types(batches)
                _check_renewals(batches, renews=renews)
            except KqueueError as error:
                done(error)
            else:
                self._groups.acknowledge(*self._member, *key, batches, done)
            for _ in range(1 + len(batches) // BATCHES_PER_STEP):
                yield None

    def end_session(self, session: ShareSession) -> None:
        """End the member's session, unless it has begun another meanwhile; the response waits until
        what it holds is released.
        """
        if self._groups.sessions.find(self._member) is session:
            self._released.append(self._groups.end_session(session))

    def results(self) -> dict[SessionPartition, KqueueError | None]:
        """Return why each partition was refused; None: it was not."""
        late = RequestTimedOut(f"the acknowledgement was not persisted within {WRITE_TIMEOUT}")
        return {key: promise.error if promise.done else late for key, promise in self._promises.items()}

    def wait(self, respond: Callable[[], R | DelayedOperation[R]]) -> R | DelayedOperation[R]:
        """Return `respond()` once all is decided, or the timeout for writes is over."""
        pending = tuple(each for each in (*self._promises.values(), *self._released) if not each.done)
        if not pending:
            return respond()
        deadline_ms = self._groups.clock.monotonic_ms() + self._groups.write_timeout_ms
        return DelayedOperation(
            pending, deadline_ms, lambda expired: respond() if expired or all(each.done for each in pending) else None
        )


def _check_renewals(batches: Sequence[Acknowledgement], *, renews: bool) -> None:
    if not renews and any(AcknowledgeType.RENEW in batch.types for batch in batches):
        raise InvalidRequest("a lock is renewed by a request of version 2 with is_renew_ack only")
