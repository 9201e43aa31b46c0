"""Commits and deletes offsets: limits, records in the log, then the store.

An offset enters the `OffsetStore` when its record is committed, so a restart never moves a
confirmed commit back. One committed in a transaction is pending there until the end marker. Who may
commit is checked by the coordinator. Source: Kafka OffsetMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.coordinators import CoordinatorState, coordinator_error
from kqueue.base.errors import KqueueError, RecordTooLarge, RequestRefused
from kqueue.base.names import UUID_ZERO
from kqueue.base.promise import Promise
from kqueue.base.settings import LONG_MAX
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.config import GroupConfig
from kqueue.groups.errors import InvalidCommitOffsetSize, OffsetMetadataTooLarge
from kqueue.groups.limits import OFFSET_BYTES, GroupLimits, offsets_bytes
from kqueue.groups.log import records
from kqueue.groups.log.group_log import Done, GroupRecords, TransactionalProducer, Wake
from kqueue.groups.log.group_writer import GroupWriter
from kqueue.groups.log.records import CommittedOffset
from kqueue.groups.offsets.offset_store import OffsetStore
from kqueue.groups.offsets.pending_offsets import CompletedOffset, TopicPartition

Outcomes = list[RequestRefused | None]
"""For each offset None, or why it was refused."""


class OffsetToCommit(NamedTuple):
    """One offset of a commit.

    `committed_ms` (wall clock): None is now. `leader_epoch` -1 and `topic_id` zero: unknown.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = UUID_ZERO
    committed_ms: int | None = None


class OffsetManager:
    """The committed offsets of all groups of one coordinator. Belongs to the owner thread.

    `ensure_group(group_id)` is called for each offset that enters the store: a group with offsets
    must exist. `offset_version`: of the records of offsets.
    """

    def __init__(
        self,
        config: GroupConfig,
        clock: Clock,
        limits: GroupLimits,
        writer: GroupWriter,
        wake: Wake,
        ensure_group: Callable[[str], None],
        offset_version: int,
    ) -> None:
        self.store = OffsetStore(limits)
        self._config = config
        self._clock = clock
        self._limits = limits
        self._writer = writer
        self._wake = wake
        self._ensure_group = ensure_group
        self._offset_version = offset_version
        self._ended_while_loading: dict[int, list[tuple[int, bool]]] = {}  # partition -> producer id, committed

    # --- commits

    def commit(
        self,
        group_id: str,
        offsets: Sequence[OffsetToCommit],
        retention_ms: int | None = None,
        producer: TransactionalProducer | None = None,
    ) -> Promise[Outcomes]:
        """Commit offsets of one group.

        Args:
            retention_ms: expire so long from now; None: by the broker's rules.
            producer: commit them in its transaction: they are pending until `complete_transaction`.
        Returns: a promise with an outcome per offset; a refused offset does not stop the others. It
            fails, with nothing changed, with what `coordinator_error` makes of a failed write.
        """
        now_ms = self._clock.wall_ms()
        expires_ms = None if retention_ms is None else min(now_ms + retention_ms, LONG_MAX)
        has_room = self._limits.has_room(offsets)
        metadata_length_max = self._config.metadata_length_max
        outcomes: Outcomes = []
        accepted: list[tuple[TopicPartition, CommittedOffset]] = []
        for offset in offsets:
            key = (offset.topic, offset.partition)
            committed = CommittedOffset(
                offset.offset,
                offset.leader_epoch,
                offset.metadata,
                now_ms if offset.committed_ms is None else offset.committed_ms,
                expires_ms,
                offset.topic_id,
            )
            refusal: RequestRefused | None = None
            if len(offset.metadata) > metadata_length_max:
                refusal = self._metadata_refusal(offset)
            elif not has_room:
                refusal = self._size_refusal(group_id, key, committed, len(accepted), producer)
            outcomes.append(refusal)
            if refusal is None:
                accepted.append((key, committed))
        return self._append_commit(group_id, accepted, outcomes, producer)

    def _metadata_refusal(self, offset: OffsetToCommit) -> RequestRefused:
        limit = self._config.metadata_length_max
        return OffsetMetadataTooLarge(f"metadata has at most {limit} characters, found {len(offset.metadata)}")

    def _size_refusal(
        self,
        group_id: str,
        key: TopicPartition,
        committed: CommittedOffset,
        accepted_count: int,
        producer: TransactionalProducer | None,
    ) -> RequestRefused | None:
        topic, partition = key
        if producer is None:
            former = self.store.of(group_id).get(topic, {}).get(partition)
        else:
            former = self.store.pending.find(self._writer.partition_of(group_id), producer.producer_id, group_id, key)
        return self._limits.refusal(group_id, former, committed, OFFSET_BYTES * accepted_count)

    def _append_commit(
        self,
        group_id: str,
        accepted: Sequence[tuple[TopicPartition, CommittedOffset]],
        outcomes: Outcomes,
        producer: TransactionalProducer | None,
    ) -> Promise[Outcomes]:
        promise: Promise[Outcomes] = Promise()
        if not accepted:
            promise.resolve(outcomes)
            return promise
        batch: GroupRecords = [
            (records.offset_key(group_id, *key), records.offset_value(committed, self._offset_version))
            for key, committed in accepted
        ]
        keys = [key for key, _ in accepted]
        size = offsets_bytes([committed for _, committed in accepted])
        self.store.begin(group_id, keys)
        self._limits.offset_bytes += size

        def done(error: KqueueError | None) -> None:
            self.store.end(group_id, keys)
            self._limits.offset_bytes -= size
            if isinstance(error, RecordTooLarge):  # Source: Kafka appendOffsetCommit
                promise.fail(InvalidCommitOffsetSize(str(error)))
            elif error is not None:
                promise.fail(coordinator_error(error))
            else:
                for key, committed in accepted:
                    self.put(group_id, key, committed, None if producer is None else producer.producer_id)
                promise.resolve(outcomes)
            self._wake(promise)

        self._writer.append(group_id, batch, done, producer)
        return promise

    def put(
        self, group_id: str, key: TopicPartition, committed: CommittedOffset, producer_id: int | None = None
    ) -> None:
        """Store an offset that is in the log; with `producer_id` it is pending."""
        if producer_id is None:
            self.store.put(group_id, *key, committed)
        else:
            self.store.pending.add(self._writer.partition_of(group_id), producer_id, group_id, key, committed)
        self._ensure_group(group_id)

    def complete_transaction(self, partition: int, producer_id: int, *, committed: bool) -> SlicedWork[None]:
        """Store the offsets of a transaction that ended in a partition of the log, or drop them.

        The transaction ends with the call; offsets stay pending until their step. A producer's next
        transaction and later commits may begin before the last step.
        """
        if self._writer.state(partition) is CoordinatorState.LOADING:
            # the replay may have passed the place of the marker
            self._ended_while_loading.setdefault(partition, []).append((producer_id, committed))
            return self._store_completed(iter(()))
        completed = self.store.pending.complete(partition, producer_id, committed=committed)
        return self._store_completed(completed)

    def complete_ended_while_loading(self, partition: int) -> SlicedWork[None]:
        """Complete the transactions that ended while a partition was loaded.

        One whose marker the replay has read has nothing pending any more.
        """
        works = [
            self.complete_transaction(partition, producer_id, committed=committed)
            for producer_id, committed in self._ended_while_loading.pop(partition, ())
        ]
        return self._run_all(works)

    def _run_all(self, works: Iterable[SlicedWork[None]]) -> SlicedWork[None]:
        for work in works:
            yield from work

    def forget_ended_while_loading(self, partition: int) -> None:
        """Forget those of a load that was broken off: the next one reads their markers."""
        self._ended_while_loading.pop(partition, None)

    def _store_completed(self, completed: Iterator[CompletedOffset]) -> SlicedWork[None]:
        for offset in completed:
            self.store.put_completed(offset)
            yield None

    # --- deletion

    def delete(self, group_id: str, keys: Iterable[TopicPartition], outcomes: Outcomes) -> Promise[Outcomes]:
        """Delete those of `keys` that are committed, pending or being written.

        Returns: a promise with `outcomes`. It fails as that of `commit`.
        """
        promise: Promise[Outcomes] = Promise()
        deleted = sorted(self.store.keys(group_id).intersection(keys))
        if not deleted:
            promise.resolve(outcomes)
            return promise

        def done(error: KqueueError | None) -> None:
            if error is None:
                promise.resolve(outcomes)
            else:
                promise.fail(coordinator_error(error))
            self._wake(promise)

        self.append_tombstones(group_id, deleted, done)
        return promise

    def append_tombstones(
        self, group_id: str, keys: Sequence[TopicPartition], done: Done | None = None, *, with_group: bool = False
    ) -> None:
        """Append tombstones for these offsets and, `with_group`, for a classic group, as one batch.

        The offsets leave the store when the batch is committed; `done` is called afterwards.
        """
        batch: GroupRecords = [(records.offset_key(group_id, *key), None) for key in keys]
        if with_group:
            batch.append((records.group_key(group_id), None))

        def remove(error: KqueueError | None) -> None:
            if error is None:
                self.remove(group_id, keys)
            if done is not None:
                done(error)

        self._writer.append(group_id, batch, remove)

    def delete_topic(self, topic: str, only: int | None = None) -> None:
        """Delete all groups' offsets of a deleted topic, in one batch per partition of the log.

        Args: only: the one partition of the log whose groups are meant; None: all.
        """
        by_partition: dict[int, list[tuple[str, TopicPartition]]] = {}
        for group_id, keys in self.store.keys_of_topic(topic).items():
            partition = self._writer.partition_of(group_id)
            by_partition.setdefault(partition, []).extend((group_id, key) for key in sorted(keys))
        for partition, deleted in by_partition.items():
            if only in (None, partition):
                self._append_topic_tombstones(partition, deleted)

    def _append_topic_tombstones(self, partition: int, deleted: Sequence[tuple[str, TopicPartition]]) -> None:
        def done(error: KqueueError | None) -> None:
            if error is None:
                for group_id, key in deleted:
                    self.remove(group_id, [key])

        self._writer.append_to(
            partition, [(records.offset_key(group_id, *key), None) for group_id, key in deleted], done
        )

    def remove(self, group_id: str, keys: Iterable[TopicPartition]) -> None:
        """Remove offsets whose tombstones are committed."""
        for topic, partition in keys:
            self.store.remove(group_id, topic, partition)
