"""ShareFetch (key 78): acquire records for a member of a share group, and acknowledge others.

Records leave as they are on disk; `acquired_records` says which of them the member holds. Versions
1 to 2:

    1       share groups (KIP-932); version 0 was early access
    2       renewal of locks (KIP-1222), a strict limit of records (KIP-1206)

Acknowledgements are applied first. The response has both results, once the acknowledgements are
persisted and there are `min_bytes` of available records, or no time to wait. What a fetch acquires
is in memory only: after a crash it is available again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NoReturn

from kqueue.api.access import on_each, on_group
from kqueue.api.errors import code_of, message_of
from kqueue.api.header_reads import HeaderReads
from kqueue.api.leader_hints import add_share_leader_hint
from kqueue.api.request_context import RequestContext
from kqueue.api.share_acknowledgements import WRITE_TIMEOUT, Acknowledgements, acknowledgements_of, share_groups
from kqueue.api.slices import in_slices
from kqueue.api.topic_access import TopicAccess
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.fetch.fetch_verifications import VERIFICATION_WAIT_MS, FetchVerifications
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.share.share_fetch import PASSES_MAX, AcquiredRecords, SharePass, ShareReader
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.share.errors import NoShareState
from kqueue.share.sessions import EPOCH_FINAL, EPOCH_NEW, MemberKey, SessionPartition, ShareSession, check_member
from kqueue.share.share_partition import RANGES_MAX, AcquireLimits
from kqueue.wire.messages import share_fetch as messages
from kqueue.wire.messages.share_fetch import (
    AcquiredRecords as AcquiredRecordsData,
)
from kqueue.wire.messages.share_fetch import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

VERSIONS = (1, 2)
ACCESS = (
    on_group(AclOperation.READ),
    on_each(AclOperation.READ, ResourceType.TOPIC, "at each fetch of a session"),
)
RECORD_LIMIT = 1
"""The acquire mode with a strict limit of records; 0 acquires whole batches."""


def handle(
    request: ShareFetchRequest, context: RequestContext
) -> ShareFetchResponse | DelayedOperation[ShareFetchResponse]:
    """Respond when the acknowledgements are persisted and there are records."""
    return in_slices(context, _handle_sliced(request, context), lambda: True)


def _handle_sliced(
    request: ShareFetchRequest, context: RequestContext
) -> SlicedWork[ShareFetchResponse | DelayedOperation[ShareFetchResponse]]:
    groups = share_groups(context)
    acknowledgements = acknowledgements_of(request.topics)
    epoch = request.share_session_epoch
    try:
        member = check_member(request.group_id, request.member_id)
        _check(request, has_acknowledgements=bool(acknowledgements))
        fetched = [
            (bytes(topic.topic_id), partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        ]
        if epoch == EPOCH_NEW:
            session = groups.sessions.create(member, fetched, context.connection, context.principal)
            added = list(session.partitions)
        else:
            session = groups.sessions.use(member, epoch, context.principal)
            added = [key for key in fetched if key not in session.partitions]
            if epoch != EPOCH_FINAL:
                groups.sessions.update(session, fetched, _forgotten(request))
    except KqueueError as error:
        return error_response(request, context.api_version, error)
    work = Acknowledgements(context, member)
    # before a slice ends: it copies the request's numbers
    fetch = DelayedShareFetch(request, context, (member, session, added), work)
    yield from work.start(acknowledgements, renews=request.is_renew_ack)
    if epoch == EPOCH_FINAL and groups.sessions.find(member) is session:
        work.add(groups.end_session(session))
    return fetch.start()


def error_response(request: ShareFetchRequest, version: int, error: BaseException) -> ShareFetchResponse:
    """Return `error`."""
    return ShareFetchResponse(error_code=code_of(error), error_message=message_of(error))


def _check(request: ShareFetchRequest, *, has_acknowledgements: bool) -> None:
    if request.share_session_epoch == EPOCH_NEW and has_acknowledgements:
        raise InvalidRequest("the first request of a share session acknowledges nothing: its member holds no records")
    fetches = request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    if request.is_renew_ack and fetches:
        raise InvalidRequest(
            "a request with is_renew_ack fetches nothing: max_bytes, min_bytes, max_records and max_wait_ms must be 0"
        )


def _forgotten(request: ShareFetchRequest) -> Iterable[SessionPartition]:
    return [(bytes(topic.topic_id), index) for topic in request.forgotten_topics_data for index in topic.partitions]


class DelayedShareFetch:
    """One ShareFetch until its response. Keeps numbers of the request only: its buffer is reused.

    `added`: new partitions of the session, which the response names in any case.
    """

    __slots__ = (
        "access", "added", "context", "deadline_ms", "headers", "headers_until_ms", "keys", "limits", "lock_ms",
        "max_bytes", "max_wait_ms", "min_bytes", "open_until_ms", "operation", "reader", "session", "until_ms",
        "verifications", "work",
    )  # fmt: skip

    def __init__(
        self,
        request: ShareFetchRequest,
        context: RequestContext,
        member: tuple[MemberKey, ShareSession, list[SessionPartition]],
        work: Acknowledgements,
    ) -> None:
        groups = share_groups(context)
        key, self.session, self.added = member
        self.context = context
        self.access = TopicAccess(context, AclOperation.READ)
        self.work = work
        self.reader = ShareReader(groups, context.broker.topics, *key)
        self.lock_ms = groups.config_of(key.group).lock_duration_ms
        self.max_bytes = min(request.max_bytes, context.broker.config["fetch.max.bytes"])
        is_fetch = request.share_session_epoch != EPOCH_FINAL and not request.is_renew_ack and self.max_bytes > 0
        self.limits = AcquireLimits(
            max(request.max_records, 0) if is_fetch else 0,
            request.share_acquire_mode == RECORD_LIMIT,
            max(request.batch_size, 1),
        )
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.max_wait_ms = request.max_wait_ms
        self.verifications: FetchVerifications | None = None
        self.headers = HeaderReads(context.broker.scheduler.jobs, context.broker.scheduler.purgatory)

    def start(self) -> ShareFetchResponse | DelayedOperation[ShareFetchResponse]:
        """Return the response, or the operation that waits for it."""
        if not self.limits.records_max or not self._readable():
            return self.work.wait(lambda: self._respond(None, {}))
        self.deadline_ms = self.context.deadline_ms(self.max_wait_ms)
        self.until_ms = self.deadline_ms
        self.headers_until_ms = self.context.deadline_ms(VERIFICATION_WAIT_MS)
        self.open_until_ms = self.context.deadline_ms(self.context.broker.config[WRITE_TIMEOUT])
        response = self._next(self.max_wait_ms <= 0)
        if response is None:
            response = self.operation = DelayedOperation(self.keys, self.until_ms, self._try_complete)
        return response

    def _try_complete(self, expired: bool) -> ShareFetchResponse | DelayedOperation[ShareFetchResponse] | None:
        former = self.operation
        is_over = expired or self.context.broker.scheduler.clock.monotonic_ms() >= self.deadline_ms
        response = self._next(is_over, must_end=expired)
        if response is not None:
            former.try_complete = _completed  # ends the reference cycle of operation and fetch
        elif self.keys != former.keys:
            response = self.operation = DelayedOperation(self.keys, self.until_ms, self._try_complete)
        else:
            former.deadline_ms = self.until_ms
        return response

    def _next(
        self, expired: bool, *, must_end: bool = False
    ) -> ShareFetchResponse | DelayedOperation[ShareFetchResponse] | None:
        """Read, and acquire if there is enough; None: wait for `keys`.

        Args: expired: the client waits no longer. must_end: respond even if that says nothing of
            records that there may be.
        """
        if not self._is_in_session():
            return self.work.wait(lambda: self._respond(None, {}))
        for _ in range(PASSES_MAX):
            self.until_ms = self.deadline_ms
            result = self.reader.read(self._readable(), self.max_bytes)
            self.keys = result.keys()
            if must_end:
                result.read.drop_unverified()
                result.errors.update(_last_errors(result))
            elif self._is_opening(result) or (result.read.unverified and not self._is_verified(result)):
                return None
            is_enough = result.read.size >= max(self.min_bytes, 1) or _has_failed(result) or result.read.urgent
            if not (is_enough or expired):
                return None
            acquired = self._acquire(result)
            if self.headers.running and not (acquired or _has_failed(result) or must_end):
                self.until_ms = max(self.deadline_ms, self.headers_until_ms)
                if self.context.broker.scheduler.clock.monotonic_ms() < self.until_ms:
                    return None
            # Else all that was read is skipped: the next pass goes on behind it.
            has_news = acquired or _has_failed(result) or result.read.urgent
            if has_news or expired or not result.read.size:
                return self.work.wait(partial(self._respond, result, acquired))
        self.context.broker.scheduler.purgatory.wake_in_later_turn(self.keys[0])
        return None

    def _readable(self) -> list[SessionPartition]:
        """Return the partitions of the session whose topics the client may read."""
        return [key for key in self.session.partitions if self.access.error(key[0]) is None]

    def _denied(self) -> dict[SessionPartition, KqueueError]:
        errors = {key: self.access.error(key[0]) for key in self.session.partitions}
        return {key: error for key, error in errors.items() if error is not None}

    def _is_in_session(self) -> bool:
        """Whether the session goes on. Else the member's records were released, or it has begun
        another: what this fetch acquired would be delivered to nobody, and yet be counted.
        """
        return share_groups(self.context).sessions.find(self.session.key) is self.session

    def _is_opening(self, result: SharePass) -> bool:
        """Whether to wait for share partitions that open: no client waits for what it can't see."""
        if all(opened.share is not None for opened in result.opened.values()):
            return False
        self.until_ms = max(self.deadline_ms, self.open_until_ms)
        return self.context.broker.scheduler.clock.monotonic_ms() < self.open_until_ms

    def _is_verified(self, result: SharePass) -> bool:
        """Whether all that was read may be served; else start to verify it."""
        if self.verifications is None:
            self.verifications = FetchVerifications(
                self.context.broker.scheduler.purgatory,
                self.context.deadline_ms(max(self.max_wait_ms, VERIFICATION_WAIT_MS)),
            )
        result.read.fail_unverified(self.verifications.failed)
        if (
            not result.read.unverified
            or self.context.broker.scheduler.clock.monotonic_ms() >= self.verifications.deadline_ms
        ):
            result.read.drop_unverified()
            return True
        self.verifications.start(result.read)
        self.until_ms = self.verifications.deadline_ms
        return False

    def _acquire(self, result: SharePass) -> dict[SessionPartition, AcquiredRecords]:
        """Acquire from what was read, but for partitions whose headers are on the disk only:
        a job reads those.
        """
        acquired: dict[SessionPartition, AcquiredRecords] = {}
        left, ranges = self.limits.records_max, 0
        for read in result.read.results:
            region = read.read.fetched.region if read.read is not None else None
            if not region or left <= 0 or ranges >= RANGES_MAX:
                continue
            assert isinstance(read.fetch.topic, bytes)
            key = (read.fetch.topic, read.fetch.index)
            try:
                headers = self.headers.read(key, region, left, read.partition)
                if headers is None:
                    continue
                records = self.reader.acquire(result.opened[key], read, headers, self.limits._replace(records_max=left))
            except KqueueError as error:
                result.errors[key] = error.with_traceback(None)
                continue
            if records.ranges:
                acquired[key] = records
                ranges += len(records.ranges)
                left -= sum(each.last - each.first + 1 for each in records.ranges)
                self.session.rotate(key)
        return acquired

    def _respond(
        self, result: SharePass | None, acquired: dict[SessionPartition, AcquiredRecords]
    ) -> ShareFetchResponse:
        errors = self._denied() if self.limits.records_max else {}
        if result is not None:
            errors.update(result.errors)
            for read in result.read.results:
                if read.error is not None and isinstance(read.fetch.topic, bytes):
                    errors[read.fetch.topic, read.fetch.index] = read.error
        acknowledged = self.work.results()
        keys = dict.fromkeys((*acknowledged, *acquired, *errors))
        if result is not None:
            keys.update(dict.fromkeys(self.added))
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        response = ShareFetchResponse(acquisition_lock_timeout_ms=self.lock_ms)
        for key in keys:
            topic = topics.setdefault(key[0], ShareFetchableTopicResponse(topic_id=key[0]))
            data = _data(key[1], acquired.get(key), errors.get(key))
            data.acknowledge_error_code = code_of(acknowledged.get(key))
            data.acknowledge_error_message = message_of(acknowledged.get(key))
            for error in (errors.get(key), acknowledged.get(key)):
                add_share_leader_hint(self.context, key, error, data, response, messages)
            topic.partitions.append(data)
        response.responses = list(topics.values())
        return response


def _has_failed(result: SharePass) -> bool:
    """Whether to respond at once: a client that is told of a missing state asks again and again."""
    return any(not isinstance(error, NoShareState) for error in result.errors.values())


def _last_errors(result: SharePass) -> dict[SessionPartition, KqueueError]:
    """Why the partitions that are being opened once more could not be opened before."""
    return {
        key: opened.error for key, opened in result.opened.items() if opened.share is None and opened.error is not None
    }


def _data(index: int, records: AcquiredRecords | None, error: KqueueError | None) -> PartitionData:
    data = PartitionData(partition_index=index, error_code=code_of(error), error_message=message_of(error), records=b"")
    if records is not None:
        data.records = records.data
        data.acquired_records = [
            AcquiredRecordsData(first_offset=each.first, last_offset=each.last, delivery_count=each.delivery_count)
            for each in records.ranges
        ]
    return data


def _completed(expired: bool) -> NoReturn:
    raise AssertionError("this fetch is complete")
