"""One Produce request: appends to its partitions, then waits for what `acks` asks.

    acks    confirmed
    0       never; there is no response
    1       when this leader has the batch on its disk; kqueue.flush=kafka: when it is appended
    -1      when it is committed: below the high watermark

A request with many partitions, or many closed logs, is appended in slices over several turns, with
its records copied (`RecordCopies`). Source: Kafka's DelayedProduce.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kqueue.base.errors import InvalidTopic, KqueueError, NotLeader, RequestTimedOut, TooManyOpenFiles
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.produce.partition_append import PartitionAppend
from kqueue.broker.produce.produce_transaction import ProduceTransaction
from kqueue.broker.produce.record_copies import RecordCopies
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replicas.partition import CLOSED_LOGS_MAX
from kqueue.records.batch import BATCH_OVERHEAD

if TYPE_CHECKING:
    from kqueue.base.clock import Clock
    from kqueue.broker.topics.topics import Topic, Topics

R = TypeVar("R")
TopicAppends = tuple[str | bytes, Sequence[PartitionAppend]]
"""A topic's name or id, and the appends to its partitions."""

PARTITIONS_AT_ONCE_MAX = 1000
"""So many partitions and topics are appended in one turn."""
PAUSE_MS = 5
"""Pause of a large request when no more files can be opened: flushes close some."""
PAUSES_MAX = 400
"""After so many pauses in all, the remaining partitions fail."""
_partition_of = attrgetter("partition")
ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
LEADER_TIMEOUT_MS_MIN = 30_000
"""With acks=1 `timeout_ms` counts from this value on. Kafka does not read it: its leader answers
after the append. So a client that sends a small one expects no REQUEST_TIMED_OUT.
"""


class ProduceHost:
    """The parts that the Produce requests of one broker share.

    Attributes:
        copies: of records that wait for a later turn.
        flush_before_visible: see `PartitionHost`.
    """

    __slots__ = ("clock", "copies", "flush_before_visible", "topics")

    def __init__(self, clock: Clock, topics: Topics, *, flush_before_visible: bool) -> None:
        self.clock = clock
        self.topics = topics
        self.copies = RecordCopies()
        self.flush_before_visible = flush_before_visible


class DelayedProduce:
    """One request until all of `topics` is confirmed or has failed.

    Without `waits` nothing is ever unconfirmed: acks=0, and acks=1 where an append is confirmed at
    once.

    Args:
        produce_version: decides about formats and transactions.
        find_topic: returns the topic of a key, if the client may write to it; raises KqueueError.

    Attributes:
        throttle_ms: how long the producer is to wait, because of a topic's backlog; 0: not.
        takes_turns: whether it has many partitions, so that all that grows with them is sliced.
        unappended: deferred appends that have not ended.
        unconfirmed: appends that may not yet be where `acks` asks.
    """

    __slots__ = (
        "_copied_bytes", "_find_topic", "_host", "_is_out_of_files", "_is_unflushed", "_now_ms", "_operation",
        "_timeout_ms", "_version", "_waits", "acks", "takes_turns", "throttle_ms", "topics", "transaction",
        "unappended", "unconfirmed",
    )  # fmt: skip
    __deletable__ = ("_operation",)  # for mypyc

    _copied_bytes: int | None

    def __init__(
        self,
        host: ProduceHost,
        acks: int,
        produce_version: int,
        topics: Sequence[TopicAppends],
        find_topic: Callable[[Any], Topic],
    ) -> None:
        self._host = host
        self.acks = acks
        self._version = produce_version
        self.topics = topics
        self._find_topic = find_topic
        self._waits = acks == ACKS_ALL or (acks == ACKS_LEADER and host.flush_before_visible)
        self._now_ms = host.clock.wall_ms()
        self._operation: DelayedOperation[Any]
        self.unappended: list[PartitionAppend] = []
        self.unconfirmed: list[PartitionAppend] = []
        self.transaction: ProduceTransaction | None = None
        self.throttle_ms = 0
        self.takes_turns = False
        # Whether all appends are surely unflushed: no flush ends within the turn of an append.
        self._is_unflushed = host.flush_before_visible

    # --- append

    def is_long(self) -> bool:
        """Return whether the partitions are too many for one turn, or too many logs are closed."""
        if len(self.topics) + sum(len(appends) for _, appends in self.topics) > PARTITIONS_AT_ONCE_MAX:
            return True
        known, closed = self._host.topics, 0
        for key, appends in self.topics:
            topic = known.find_by_id(key) if isinstance(key, bytes) else known.find(key)
            if topic is not None:
                partitions = topic.partitions
                indexes = (append.index for append in appends)
                closed += sum(0 <= index < len(partitions) and not partitions[index].is_open for index in indexes)
        return closed > CLOSED_LOGS_MAX

    def add_to_transaction(self, transaction: ProduceTransaction) -> SlicedWork[None]:
        """Add the partitions that exist to the request's transaction, yielding after each.

        Raises: InvalidProducerIdMapping.
        """
        self.transaction = transaction
        for key, appends in self.topics:
            try:
                topic = self._topic(key)
            except KqueueError:
                continue  # the append reports it
            for append in appends:
                if 0 <= append.index < len(topic.partitions):
                    transaction.add(topic.partitions[append.index], append.records)
                yield None

    def append(self) -> None:
        """Append to all partitions at once."""
        for key, appends in self.topics:
            try:
                topic = self._topic(key)
            except KqueueError as error:
                for append in appends:
                    append.fail(error)
                    append.records = None
            else:
                for append in appends:
                    self._append(topic, append)
                    append.records = None  # the buffer of the request is reused

    def append_in_slices(self, adding: SlicedWork[None] | tuple[()] = ()) -> SlicedWork[None]:
        """Append partition by partition, yielding after each, once the transaction coordinator has
        answered. Appended records are released.

        Args: adding: what remains of `add_to_transaction`.
        Raises: as `ProduceTransaction.verify`.
        """
        self._copied_bytes = None
        self._is_unflushed = False  # a flush may end before the last append
        try:
            yield from adding
            if self.transaction is not None:
                yield from self.transaction.verify(self.keep)
            pauses = PAUSES_MAX
            for key, appends in self.topics:
                for append in appends:
                    # An append overwrites the header; the next attempt needs it as it was.
                    header = bytes(append.records[:BATCH_OVERHEAD]) if append.records else b""
                    self._append_by_key(key, append)
                    while self._is_out_of_files and pauses:
                        pauses -= 1
                        yield PAUSE_MS
                        if append.records:
                            append.records[: len(header)] = header
                        self._append_by_key(key, append)
                    append.records = None
                    yield None
        finally:
            self._release_copies()

    def _release_copies(self) -> None:
        self._host.copies.release(self._copied_bytes or 0)

    def keep(self) -> bool:
        """Copy the records that are not appended yet, once. Return False if there is no memory."""
        if self._copied_bytes is None:
            all_appends = [append for _, appends in self.topics for append in appends]
            self._copied_bytes = self._host.copies.hold(all_appends)
        return self._copied_bytes is not None

    def _append_by_key(self, key: str | bytes, append: PartitionAppend) -> None:
        append.error = None
        self._is_out_of_files = False  # whether this append could not open its file
        try:
            self._append(self._topic(key), append)  # the topic may be deleted between two slices
        except KqueueError as error:
            append.fail(error)

    def _topic(self, key: str | bytes) -> Topic:
        topic = self._find_topic(key)
        if topic.is_internal:
            raise InvalidTopic(f"topic {topic.name} is internal: clients must not write to it")
        return topic

    def _append(self, topic: Topic, append: PartitionAppend) -> None:
        transaction = self.transaction
        try:
            partition = append.partition = topic.partition(append.index)
            if transaction is not None:
                transaction.raise_error(partition)
            # Before the append, so that NOT_ENOUGH_REPLICAS means that nothing was written. A set
            # that shrinks later is NOT_ENOUGH_REPLICAS_AFTER_APPEND (`is_committed`): it may have
            # been.
            if self.acks == ACKS_ALL:
                partition.replica.check_in_sync()
        except KqueueError as error:
            append.fail(error)
            return
        # From here on the partition is known: a refusal says where its log starts (`refuse`).
        try:
            appended = topic.appender.append(
                partition,
                append.records,
                now_ms=self._now_ms,
                produce_version=self._version,
                transaction=transaction,
            )
        except NotLeader as error:
            append.fail(error, has_moved=True)
            return
        except TooManyOpenFiles as error:
            append.fail(error)
            self._is_out_of_files = True
            return
        except KqueueError as error:
            append.refuse(error)
            self._is_unflushed = False  # its log may have failed, which was reported already
            return
        if partition.backlog is not None and (throttle_ms := partition.backlog.throttle_ms()):
            self.throttle_ms = max(self.throttle_ms, throttle_ms)
        if isinstance(appended, Promise):
            append.promise = appended
            self.unappended.append(append)
            return
        append.appended = appended
        if self._waits:
            self.unconfirmed.append(append)
            if appended.duplicate:
                self._is_unflushed = False

    # --- wait

    def is_confirmed_now(self) -> bool:
        """Return `is_confirmed` right after the last append."""
        return not self._is_unflushed and self.is_confirmed()

    def wait(self, timeout_ms: int, respond: Callable[[], R | DelayedOperation[R]]) -> DelayedOperation[R]:
        """Return the operation that waits for `unappended`, then for `unconfirmed`.

        The time of the request begins to count when all records are read, as in Kafka.
        Args:
            respond: makes the response of the outcomes of the appends.
        """
        self._timeout_ms = timeout_ms
        until_ms: float | None
        if self.unappended:
            # The deadline comes with the last append; until then nothing ends the operation.
            promises = [append.promise for append in self.unappended]
            keys = (*promises, *map(_partition_of, self.unappended), *map(_partition_of, self.unconfirmed))
            until_ms = None
        else:
            keys = tuple(map(_partition_of, self.unconfirmed))
            until_ms = self._deadline()

        operation: DelayedOperation[R] = DelayedOperation(keys, until_ms, partial(self._try_complete, respond))
        self._operation = operation
        return operation

    def _deadline(self) -> float:
        least_ms = LEADER_TIMEOUT_MS_MIN if self.acks == ACKS_LEADER else 0
        return self._host.clock.monotonic_ms() + max(self._timeout_ms, least_ms)

    def _try_complete(
        self, respond: Callable[[], R | DelayedOperation[R]], expired: bool
    ) -> R | DelayedOperation[R] | None:
        """Return the response if all is confirmed, or time is over."""
        if self.unappended:
            self.unappended = [append for append in self.unappended if not self._end_deferred(append)]
            if self.unappended:
                return None
            # The client's timeout is for replication. How long this broker reads the records does
            # not use it up.
            self._operation.deadline_ms = self._deadline()
        if not self.is_confirmed():
            if not expired:
                return None
            self._fail_unconfirmed()
        del self._operation  # ends the reference cycle of request and operation
        return respond()

    def _fail_unconfirmed(self) -> None:
        missing = "committed" if self.acks == ACKS_ALL else "flushed"
        # Asked once more: one that became confirmed while another one was waited for is no timeout.
        for append in [append for append in self.unconfirmed if not self._is_settled(append)]:
            append.fail(RequestTimedOut(f"the records were appended, but not {missing} in time"))

    def _end_deferred(self, append: PartitionAppend) -> bool:
        """Take over the outcome of a deferred append; return whether it is known."""
        promise = append.promise
        if not promise.done:
            return False
        del append.promise
        try:
            append.appended = promise.result()
        except KqueueError as error:
            append.refuse(error)
        else:
            if self._waits:
                self.unconfirmed.append(append)
        return True

    def is_confirmed(self) -> bool:
        """Return whether all appends are where `acks` asks, or failed.

        Stops at the first append that is not, so that n partitions cost n looks, not n squared.
        """
        unconfirmed = self.unconfirmed
        while unconfirmed and self._is_settled(unconfirmed[-1]):
            unconfirmed.pop()
        return not unconfirmed

    def _is_settled(self, append: PartitionAppend) -> bool:
        partition, appended = append.partition, append.appended
        assert appended is not None
        try:
            if self.acks == ACKS_LEADER:
                return partition.is_flushed(appended.last_offset + 1)
            return partition.is_committed(appended.last_offset + 1)
        except KqueueError as error:
            append.fail(error, has_moved=isinstance(error, NotLeader))
            return True
