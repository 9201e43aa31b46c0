"""What the leader of a partition does in the tier: one job at a time, one after another.

    claim     once in each leader epoch: earlier leaders can't write any more
    expire    at each interval: raise the log start, delete what is below it
    copy      the sealed segments that the tier lacks, the oldest first

The log start is raised in the manifest first, then in the checkpoint here, then for readers;
segments below it are deleted last. So no offset comes back that was once deleted, whichever replica
leads next. Source: Kafka's RemoteLogManager.RLMCopyTask, RLMExpirationTask.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from kqueue.base import events
from kqueue.base.errors import CorruptBatch, KqueueError, LogRecovering
from kqueue.base.text import counted
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.tier.copies import CopyRate, local_only_bytes, next_to_copy
from kqueue.broker.tier.expiration import TotalRetention, expired_end
from kqueue.broker.tier.partition_tier import PartitionTier
from kqueue.broker.tier.tier_host import TierHost
from kqueue.broker.tier.tier_pools import TierPool
from kqueue.broker.topics.tiered_topics import COPY_DISABLE
from kqueue.broker.topics.topics import Topic
from kqueue.log.log import Log
from kqueue.tier.copier import copy_segment
from kqueue.tier.errors import LeaderFenced, ObjectChanged, TierCorrupt
from kqueue.tier.formats.segments import EpochEntry, TieredSegment
from kqueue.tier.lineage import Lineage
from kqueue.tier.manifest import Manifest

T = TypeVar("T")
logger = logging.getLogger("kqueue.broker")


class LeaderTasks:
    """The tasks of all partitions that this broker leads. Thread: owner thread.

    Args: drop_below_start: deletes the local segments below the log start.
    Attributes: copied_bytes, copied_segments, copy_errors, deleted_segments, delete_errors: since
        the start.
    """

    def __init__(self, host: TierHost, drop_below_start: Callable[[Partition, Topic], None]) -> None:
        self._host = host
        self._drop_below_start = drop_below_start
        self._on_disk = host.config["kqueue.storage"] != "memory"
        self._rate = CopyRate(host.config, host.clock)
        self._is_stopped = False
        self.copied_bytes = self.copied_segments = self.copy_errors = 0
        self.deleted_segments = self.delete_errors = 0

    def stop(self) -> None:
        """Begin nothing more; a copy under way ends soon."""
        self._is_stopped = True
        self._rate.stop()

    def advance(self, state: PartitionTier) -> None:
        """Begin what is next, if no job of the partition is under way."""
        partition = state.partition
        topic = self._host.topics.find(partition.topic)
        if state.is_busy or self._is_stopped or topic is None or partition.deleted or not topic.log_config.tiered:
            return
        if not partition.is_leader or state.fenced_epoch == partition.leader_epoch:
            return
        try:
            log = partition.log
            if log.health.failure is not None:
                return
            if not state.is_claimed:
                # With one segment, from offset 0 on, there is nothing to copy or to delete. But
                # after an unclean election the tier may have what this log contradicts.
                epoch = partition.leader_epoch
                has_work = len(log.segments) > 1 or log.segments.base_offset > 0 or log.start_offset > 0
                if has_work or (epoch > 0 and log.end_offset > 0 and state.empty_epoch != epoch):
                    self._claim(state, log, has_work=has_work)
            elif state.is_due:
                state.is_due = False
                self._expire(state, topic, log)
            elif not topic.config[COPY_DISABLE]:
                self._copy(state)
        except LogRecovering:
            return  # the next round looks again
        except KqueueError as error:  # of the log: its requests say so too
            self._host.failed(state, error)

    # --- claim

    def _claim(self, state: PartitionTier, log: Log, *, has_work: bool) -> None:
        epoch = state.partition.leader_epoch
        end = log.end_offset
        lineage = Lineage(log.epochs.entries(), epoch, end)
        lacks_epochs, reader = log.lacks_start or _lacks_epochs(log), self._host.reader
        local_start = log.local_start_offset if log.start_offset < log.local_start_offset else 0

        def run() -> list[EpochEntry] | None:
            manifest = state.manifest
            manifest.refresh()
            if not (has_work or manifest.exists):
                return None
            agreed_end = manifest.agreed_end(lineage)
            if max(agreed_end, manifest.root.log_start_offset) < local_start:
                # A new manifest, or copies behind the gap, would hide that. It comes before the
                # claim, which cuts off what the tier has of another lineage.
                raise TierCorrupt(_gap_text(manifest, agreed_end, local_start))
            manifest.claim(epoch, lineage)
            if manifest.end_offset > end:
                # What is left there agrees with the log in its epochs. Records that are appended
                # here would have the offsets of others, and would not be copied.
                raise TierCorrupt(
                    f"{manifest.partition}: the tier ends at {manifest.end_offset}, and the log here at {end}, in the "
                    f"same leader epoch: the disk is older than the tier, as one that was restored. Begin with an "
                    "empty one: the log goes on at the end of the tier"
                )
            return reader.epochs_at(manifest, manifest.end_offset) if lacks_epochs else []

        self._submit(self._host.manifests, state, "claim", run, partial(self._claimed, state, epoch))

    def _claimed(self, state: PartitionTier, epoch: int, tiered_epochs: list[EpochEntry] | None) -> None:
        if tiered_epochs is None:
            state.empty_epoch = epoch
            return
        partition, root = state.partition, state.manifest.root
        log = partition.log
        if log.lacks_start:
            # First: with the log start at its first segment, all that only the tier has would
            # expire. It stays unclaimed if the epochs there contradict those here.
            log.adopt_tier(state.manifest.start_offset, tiered_epochs)
        elif tiered_epochs:
            log.adopt_tier(log.start_offset, tiered_epochs)
        state.claimed_epoch = epoch
        log.tiered_end = state.manifest.end_offset
        if root.log_start_offset > log.start_offset:
            self._raise_start(state, min(root.log_start_offset, partition.high_watermark))
        state.is_due = True

    # --- copies

    def _copy(self, state: PartitionTier) -> None:
        host, partition = self._host, state.partition
        source = next_to_copy(partition)
        if source is None or source.base_offset == state.damaged_base:
            return
        if self._on_disk and partition.log.flushed_offset < source.end_offset:
            # In `kqueue.flush=kafka` nothing else may flush a log without appends.
            self._flush(state, source.end_offset)
            return
        object_id, epoch, now_ms = host.object_id(), partition.leader_epoch, host.clock.wall_ms()
        log_start = partition.log.start_offset

        def run() -> TieredSegment:
            if source.start_offset > state.manifest.end_offset:
                # What is between was deleted before it was copied, and is not missing.
                state.manifest.raise_start(epoch, log_start)
            return copy_segment(
                host.store,
                state.manifest,
                source,
                object_id=object_id,
                leader_epoch=epoch,
                broker=host.partitions.node_id,
                now_ms=now_ms,
                spend=self._rate.spend,
            )

        def failed(error: BaseException) -> None:
            self.copy_errors += 1
            if isinstance(error, CorruptBatch):
                state.damaged_base = source.base_offset

        self._submit(host.copies, state, "copy", run, partial(self._copied, state), failed)

    def _flush(self, state: PartitionTier, offset: int) -> None:
        """Flush the log up to `offset`, and go on."""
        state.is_busy = True

        def flushed() -> None:
            state.is_busy = False
            if self._host.states.get(state.partition) is state:
                self.advance(state)

        state.partition.after_flush(offset, flushed)

    def _copied(self, state: PartitionTier, segment: TieredSegment) -> None:
        partition = state.partition
        partition.log.tiered_end = state.manifest.end_offset
        self.copied_segments += 1
        self.copied_bytes += segment.size
        events.TIER_COPIED.log(
            logger,
            "%s-%d: copied offsets %d to %d into the tier, %d bytes",
            topic=partition.topic,
            partition=partition.index,
            first_offset=segment.start_offset,
            last_offset=segment.end_offset - 1,
            bytes=segment.size,
        )

    # --- expiration

    def _expire(self, state: PartitionTier, topic: Topic, log: Log) -> None:
        retention = TotalRetention.of(topic.config, local_only_bytes(log), self._host.clock.wall_ms())
        partition, manifest = state.partition, state.manifest
        epoch, start, committed = partition.leader_epoch, log.start_offset, partition.high_watermark

        def run() -> int:
            offset = max(min(expired_end(manifest, retention), committed), start)
            manifest.raise_start(epoch, offset)
            # The start here may lag behind it: what was committed was not known at the claim, or a
            # full disk did not take it.
            return max(offset, min(manifest.root.log_start_offset, committed))

        self._submit(self._host.manifests, state, "expire", run, partial(self._expired, state), self._delete_failed)

    def _expired(self, state: PartitionTier, offset: int) -> None:
        root = state.manifest.root
        if offset > state.partition.log.start_offset:
            self._raise_start(state, offset)
        elif root.levels or (root.segments and root.segments[0].end_offset <= root.log_start_offset):
            self._delete(state)

    def _raise_start(self, state: PartitionTier, offset: int) -> None:
        """Write the log start, show it, and delete what is below. Nothing else of the partition
        begins meanwhile.
        """
        host, partition = self._host, state.partition
        log, key = partition.log, (partition.topic, partition.index)
        state.is_busy = True

        def saved(error: BaseException | None) -> None:
            state.is_busy = False
            topic = host.topics.find(partition.topic)
            if error is not None or partition.deleted or topic is None or not partition.uses(log):
                return  # a failed write is logged where it failed; the next interval tries again
            log.advance_start(min(offset, log.end_offset))
            self._drop_below_start(partition, topic)
            partition.log_start_moved()
            if state.is_claimed:
                self._delete(state)

        log.announce_start(offset)
        host.logs.checkpoints.save_log_starts(key, saved)

    def _delete(self, state: PartitionTier) -> None:
        manifest, epoch = state.manifest, state.partition.leader_epoch

        def run() -> int:
            count = 0
            while deleted := manifest.delete_below_start(epoch):
                count += deleted
            return count

        self._submit(self._host.manifests, state, "delete", run, partial(self._deleted, state), self._delete_failed)

    def _deleted(self, state: PartitionTier, count: int) -> None:
        self.deleted_segments += count
        if count:
            events.TIER_DELETED.log(
                logger,
                "%s-%d: deleted %s from the tier, below offset %d",
                topic=state.partition.topic,
                partition=state.partition.index,
                segments=counted(count, "segment"),
                log_start_offset=state.manifest.root.log_start_offset,
            )

    def _delete_failed(self, error: BaseException) -> None:
        self.delete_errors += 1

    # --- jobs

    def _submit(
        self,
        pool: TierPool,
        state: PartitionTier,
        what: str,
        run: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        epoch = state.partition.leader_epoch
        state.is_busy = True

        def finish(result: Any, error: BaseException | None) -> None:
            state.is_busy = False
            partition = state.partition
            if self._is_stopped or partition.deleted or self._host.states.get(partition) is not state:
                return
            if error is not None:
                self._failed(state, epoch, error)
                failed(error)
                return
            state.show()
            state.logged = ""
            # What the job did is done; what follows from it is for the leader of that epoch only.
            if partition.is_leader and partition.leader_epoch == epoch:
                try:
                    done(result)
                except KqueueError as broken:
                    self._host.failed(state, broken)
                    return
            self.advance(state)

        pool.submit(f"{what} {state.manifest.partition} in the tier", run, finish)

    def _failed(self, state: PartitionTier, epoch: int, error: BaseException) -> None:
        if isinstance(error, LeaderFenced):
            state.fenced_epoch, state.claimed_epoch = epoch, -1
        elif isinstance(error, ObjectChanged):
            state.claimed_epoch = -1  # the answer to a change was lost: read again what there is
        elif isinstance(error, FileNotFoundError):
            return  # the segment was deleted, or the log moved to another folder
        self._host.failed(state, error)


def _gap_text(manifest: Manifest, agreed_end: int, local_start: int) -> str:
    """Return what is wrong where the tier ends before the disk begins, and what to do."""
    found = f"the tier ends at {agreed_end}"
    if agreed_end < manifest.end_offset:
        found = (
            f"the tier has the records of this log up to {agreed_end}, then others of leader epoch "
            f"{manifest.root.leader_epoch} (an unclean election)"
        )
    return (
        f"{manifest.partition}: {found}, and the disk begins at {local_start}: what is between is lost. Restore the "
        f"bucket, or have `kqueue tier recover` make the manifest again; or go on without: `kqueue topics "
        f"delete-records {manifest.partition.topic} --partition {manifest.partition.partition} --before-offset "
        f"{local_start}` gives up all before it"
    )


def _lacks_epochs(log: Log) -> bool:
    """Whether epochs of records that only the tier has are unknown: a crash, or a full disk, came
    between the restart of the log and its epochs (see `LogCut`), or they have none.
    """
    epochs = log.epochs.entries()
    known_from = epochs[0][1] if epochs else log.end_offset
    return log.start_offset < min(log.local_start_offset, known_from)
