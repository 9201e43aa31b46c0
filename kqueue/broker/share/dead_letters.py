"""Dead letters: records that a share group gives up are copied to a topic before they are archived
(`kqueue.share.dead.letter.topic` of the group). Kafka has no such option.

    1. read some of the records from the log, and build a batch, in slices
    2. append it to the dead-letter topic, and wait until it is committed
    3. repeat until all are copied; then the state of the share partition is written

Crash: between 2 and 3 the records are given up once more, so the dead-letter topic has them twice.
None is lost: without 2 there is no 3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import KqueueError, OffsetOutOfRange
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.broker.replicas.append_queue import AppendScheduler
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import Topic, Topics
from kqueue.log.results import AppendResult
from kqueue.records.batch import Record, iter_batches, iter_records
from kqueue.records.builder import build_batch
from kqueue.share.record_state import RecordEvent
from kqueue.share.share_partition import DeadRange, Done
from kqueue.share.share_state import SharePartitionKey

logger = logging.getLogger("kqueue.broker")
READ_BYTES = 256 * 1024
BATCH_BYTES = 256 * 1024
BATCH_RECORDS = 500
PRODUCE_VERSION = 9
FAILURES_PER_LINE = 60
REASONS = {RecordEvent.REJECT: "rejected", RecordEvent.EXHAUST: "delivery count limit"}


class DeadLetterSource(NamedTuple):
    """The share group and partition that records come from. `partition`: where they are read."""

    key: SharePartitionKey
    partition: Partition


class DeadLetters:
    """Copies records to dead-letter topics. Thread: the owner thread.

    Durability: when `done(None)` is called, all copies are committed.
    """

    def __init__(self, topics: Topics, scheduler: AppendScheduler, purgatory: Purgatory, clock: Clock) -> None:
        self.topics = topics
        self.scheduler = scheduler
        self.purgatory = purgatory
        self.clock = clock
        self._failures: dict[SharePartitionKey, int] = {}

    def copy(self, source: DeadLetterSource, dead: Sequence[DeadRange], topic: str, done: Done) -> None:
        """Copy the records of `dead` to `topic`, which is created if it does not exist."""

        def copied(error: KqueueError | None) -> None:
            if error is None:
                self._failures.pop(source.key, None)
            else:
                count = self._failures[source.key] = self._failures.get(source.key, 0) + 1
                if count % FAILURES_PER_LINE == 1:
                    events.DEAD_LETTERS_FAILED.log(
                        logger,
                        "records of group %.100r can't be copied to the dead-letter topic %s, and stay: %s",
                        group=source.key.group,
                        topic=topic,
                        error=error,
                    )
            done(error)

        def start(error: KqueueError | None) -> None:
            target = self.topics.find(topic)
            if error is not None or target is None:
                copied(error or KqueueError(f"the dead-letter topic {topic} was deleted"))
            else:
                _Copy(self, source, dead, target, copied).read_next()

        if self.topics.find(topic) is not None:
            start(None)
            return
        try:
            created = self.topics.create_on_demand(topic)
        except KqueueError as error:
            copied(error)
            return
        self.when(lambda: created.done, (created,), lambda: start(created.error))

    def when(self, ready: Callable[[], bool], keys: tuple[object, ...], call: Callable[[], None]) -> None:
        """Call `call` when `ready()`: now, or after a wake of one of `keys`."""
        if ready():
            call()
            return
        self.purgatory.add(DelayedOperation(keys, None, lambda expired: True if ready() else None), lambda _: call())


class _Copy:
    """One list of records on its way. Holds one batch at a time."""

    def __init__(
        self, owner: DeadLetters, source: DeadLetterSource, dead: Sequence[DeadRange], target: Topic, done: Done
    ) -> None:
        self._owner = owner
        self._source = source
        self._dead = list(reversed(dead))
        self._target = target
        self._target_partition = target.partitions[source.partition.index % len(target.partitions)]
        self._done = done

    def read_next(self) -> None:
        """Build the next batch, in slices; end if there is none."""
        promise: Promise[bytearray | None] = Promise()
        self._owner.scheduler.start(self._batch(), promise, partial(self._read, promise))

    def _batch(self) -> SlicedWork[bytearray | None]:
        """Return a batch with the next copies; None: all are copied."""
        copies: list[Record] = []
        size = 0
        while self._dead and size < BATCH_BYTES and len(copies) < BATCH_RECORDS:
            dead = self._dead.pop()
            # Records below the log start were deleted: there is nothing to copy.
            dead = dead._replace(first=max(dead.first, self._source.partition.log_start_offset))
            if dead.first > dead.last:
                continue
            data = yield from self._read_log(dead.first)
            records: list[Record] = yield partial(_records, data)
            position = dead.first
            for record in records:
                yield None
                if record.offset < dead.first:
                    continue
                if record.offset > dead.last or size >= BATCH_BYTES or len(copies) >= BATCH_RECORDS:
                    break
                copy = self._copied(record, dead, len(copies))
                copies.append(copy)
                size += len(copy.key or b"") + len(copy.value or b"") + 200
                position = record.offset + 1
            else:
                # All were read: go on behind the batches, also where control batches or compaction
                # left no record at their end; else the same batches were read without end.
                position = max(position, _end_of(data))
            if position <= dead.last and data:
                self._dead.append(dead._replace(first=position))
        return build_batch(copies, base_offset=0) if copies else None

    def _read_log(self, offset: int) -> SlicedWork[bytes]:
        """Return the batches from `offset` on; empty: they were deleted."""
        partition = self._source.partition
        while True:
            try:
                fetched = partition.read(offset, READ_BYTES).fetched
            except OffsetOutOfRange:
                return b""
            if fetched.check is None:
                break
            result = yield fetched.check.run
            partition.log.reader.add_verified(fetched.check, result)
        data: bytes = yield fetched.read
        return data

    def _copied(self, record: Record, dead: DeadRange, number: int) -> Record:
        key = self._source.key
        headers = {
            "group": key.group,
            "topic": self._source.partition.topic,
            "partition": key.partition,
            "offset": record.offset,
            "delivery.count": dead.delivery_count,
            "reason": REASONS[dead.event],
        }
        own = tuple((f"kqueue.share.{name}", str(value).encode()) for name, value in headers.items())
        return record._replace(offset=number, headers=(*record.headers, *own))

    def _read(self, promise: Promise[bytearray | None]) -> None:
        try:
            batch = promise.result()
            if batch is None:
                self._done(None)
                return
            appended = self._target.appender.append(
                self._target_partition,
                memoryview(batch),
                now_ms=self._owner.clock.wall_ms(),
                produce_version=PRODUCE_VERSION,
            )
        except KqueueError as error:
            self._done(error)
            return
        if isinstance(appended, Promise):
            self._owner.when(lambda: appended.done, (appended,), lambda: self._appended(appended))
        else:
            self._commit(appended)

    def _appended(self, promise: Promise[AppendResult]) -> None:
        if promise.error is not None:
            self._done(promise.error)
        else:
            self._commit(promise.result())

    def _commit(self, appended: AppendResult) -> None:
        failure: list[KqueueError] = []

        def committed() -> bool:
            try:
                return self._target_partition.is_committed(appended.next_offset)
            except KqueueError as error:
                failure.append(error)
                return True

        def go_on() -> None:
            if failure:
                self._done(failure[0])
            else:
                self.read_next()

        self._owner.when(committed, (self._target_partition,), go_on)


def _records(data: bytes) -> list[Record]:
    """Return the records of some batches; for a thread, as it decompresses."""
    batches = [position for position, header in iter_batches(data) if not header.is_control]
    return [record for position in batches for record in iter_records(data, position)]


def _end_of(data: bytes) -> int:
    """Return the offset after the last batch."""
    end = 0
    for _, header in iter_batches(data):
        end = header.next_offset
    return end
