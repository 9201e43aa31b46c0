"""Reads the partitions of a fetch: one pass in order, within the limits of the fetch.

Nothing is kept between passes. Source: Kafka's ReplicaManager.readFromLog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kqueue.base.errors import (
    KqueueError,
    OffsetMovedToTieredStorage,
    OffsetNotAvailable,
    OffsetOutOfRange,
    TooManyOpenFiles,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kqueue.broker.fetch.fetch_sessions import Key, PartitionFetch
from kqueue.broker.fetch.replica_selector import NO_REPLICA, RackSelector
from kqueue.broker.replicas.partition import CLOSED_LOGS_MAX, Partition
from kqueue.broker.replicas.partition_host import PartitionRead
from kqueue.broker.topics.topics import Topics
from kqueue.log.recovery.read_verification import VerificationTask
from kqueue.log.results import ReadResult, TieredReadResult

REGIONS_MAX = 64
"""Partitions with records in one response: each may hold a file descriptor until the client has
read it. The others follow in the next fetch, as when `max_bytes` is reached.
"""
NO_EPOCH = -1
NO_OFFSET = -1
UNKNOWN_PARTITION = UnknownTopicOrPartition("there is no such topic, or it has no such partition")
UNKNOWN_ID = UnknownTopicId("no topic has this id")


class FetchLimits(NamedTuple):
    """Limits of one fetch.

    `max_bytes`: of all records together; the first partition with records gives at least one
    batch, however large. `each_one_batch`: every partition does. `read_committed`: stop before
    open transactions. `from_followers`: read partitions that another broker leads, too.
    `selector`: says of partitions that this broker leads which replica is to be read; None: this.
    """

    max_bytes: int
    each_one_batch: bool = False
    read_committed: bool = False
    from_followers: bool = False
    selector: RackSelector | None = None

    def without_records(self) -> FetchLimits:
        """Return the limits of a fetch that has enough: partitions give their offsets only."""
        return self._replace(max_bytes=0, each_one_batch=False)


class DivergingEpoch(NamedTuple):
    """The point where the client's log diverges: the last epoch in common, and its end offset
    here.
    """

    epoch: int
    end_offset: int


@dataclass(slots=True)
class PartitionFetchResult:
    """Result of one partition: `read`, `diverging` or `error`. `partition` None: unknown.

    `preferred`: node id of the replica to read instead; `read` is empty then. -1: none.
    """

    fetch: PartitionFetch
    partition: Partition | None
    read: PartitionRead | None = None
    diverging: DivergingEpoch | None = None
    error: KqueueError | None = None
    preferred: int = NO_REPLICA


class FetchResult(NamedTuple):
    """Result of one pass.

    `idle`: partitions without news for the client; all others are in `results`. `unreported`: those
    of `idle` whose high watermark or log start its session has not reported. `size`: bytes of
    records. `regions`: partitions with records. `missing`: unknown partitions. `pending`: those of
    `results` whose records a job must verify, or read from the tier, before they may be served;
    repeat the pass after that.

    `urgent`: a partition has an error or diverges, so the response must not wait. Unknown
    partitions are not urgent: their client would retry at once until its metadata is updated.
    """

    results: list[PartitionFetchResult]
    idle: list[tuple[PartitionFetch, Partition]]
    size: int
    missing: int
    urgent: bool
    pending: list[PartitionFetchResult]
    regions: int
    unreported: list[tuple[PartitionFetch, Partition]]

    def partitions(self) -> tuple[Partition, ...]:
        """Return the partitions whose news may complete the fetch."""
        partitions = [partition for _, partition in self.idle]
        for result in self.results:
            if result.partition is not None:
                partitions.append(result.partition)  # noqa: PERF401  a call more
        return tuple(partitions)

    def verifications(self) -> Iterator[tuple[Partition, Key, VerificationTask]]:
        """Yield the verification tasks of `pending`."""
        for result in self.pending:
            if result.partition is not None and result.read is not None and result.read.fetched.check is not None:
                yield result.partition, result.fetch.key, result.read.fetched.check

    def drop_pending(self) -> None:
        """Leave the records of `pending` out of this response."""
        for result in self.pending:
            if result.read is not None:
                result.read = result.read._replace(fetched=ReadResult(None, result.fetch.offset, 0, 0))
            elif result.partition is not None:
                try:
                    result.read, result.error = _no_records(result.partition, result.fetch), None
                except KqueueError as error:
                    result.error = error.with_traceback(None)

    def to_read_from_tier(self) -> Iterator[PartitionFetchResult]:
        """Yield those of `pending` whose records are to be read from the tier."""
        for result in self.pending:
            if result.read is None:
                yield result

    def has_tiered_records(self) -> bool:
        """Whether some of the records were read from the tier."""
        return any(each.read is not None and isinstance(each.read.fetched, TieredReadResult) for each in self.results)

    def fail_pending(self, failed: Mapping[Key, KqueueError]) -> None:
        """Give each partition in `failed` the error of its verification."""
        for result in self.pending:
            if result.fetch.key in failed:
                result.read, result.error = None, failed[result.fetch.key]
        self.pending[:] = [result for result in self.pending if result.fetch.key not in failed]

    def without(self, partitions: Collection[object]) -> FetchResult:
        """Return this pass without those of its idle partitions."""
        return self._replace(
            idle=[entry for entry in self.idle if entry[1] not in partitions],
            unreported=[entry for entry in self.unreported if entry[1] not in partitions],
        )

    def extended(self, later: FetchResult) -> FetchResult:
        """Return this pass with `later`, its continuation; joins their lists in place."""
        self.results.extend(later.results)
        self.idle.extend(later.idle)
        self.unreported.extend(later.unreported)
        self.pending.extend(later.pending)
        return self._replace(
            size=self.size + later.size,
            missing=self.missing + later.missing,
            urgent=self.urgent or later.urgent,
            regions=self.regions + later.regions,
        )


def read_partitions(
    topics: Topics, fetches: Sequence[PartitionFetch], limits: FetchLimits, before: FetchResult | None = None
) -> FetchResult:
    """Read each partition from its fetch offset. Raises no KqueueError: each is in its result.

    Args:
        before: earlier part of the same pass, which counts against `limits`.
    """
    results: list[PartitionFetchResult] = []
    idle: list[tuple[PartitionFetch, Partition]] = []
    unreported: list[tuple[PartitionFetch, Partition]] = []
    pending: list[PartitionFetchResult] = []
    size_before, regions = (before.size, before.regions) if before is not None else (0, 0)
    size, regions_before, missing, urgent = size_before, regions, 0, False
    if regions >= REGIONS_MAX:
        limits = limits.without_records()
    for fetch in fetches:
        partition = fetch.partition
        # A large session has thousands of partitions and news for a few. The idle ones cost some
        # comparisons each, and no result object.
        if partition is not None and (log := partition.log_without_news(fetch.offset)) is not None:
            replica = partition.replica
            # Nor may it have an error for the client. Only a read can tell where the logs differ,
            # so a fetch with a last epoch is never idle.
            if (
                fetch.leader_epoch in (NO_EPOCH, replica.leader_epoch)
                and fetch.last_fetched_epoch == NO_EPOCH
                and (replica.is_leader or limits.from_followers)
            ):
                idle.append((fetch, partition))
                if fetch.high_watermark != fetch.offset or fetch.log_start_offset != log.start_offset:
                    unreported.append((fetch, partition))
                continue
        result = _read_partition(topics, fetch, limits, size)
        if regions and isinstance(result.error, TooManyOpenFiles):  # respond with what was read
            limits = limits.without_records()
            result = _read_partition(topics, fetch, limits, size)
        results.append(result)
        # The client is to ask another replica: it has nothing to wait for here (KIP-392).
        urgent = urgent or result.preferred != NO_REPLICA
        if result.read is not None:
            size += len(result.read.fetched)
            regions += result.read.fetched.region is not None
            if regions == REGIONS_MAX:
                limits = limits.without_records()
            if result.read.fetched.check is not None:
                pending.append(result)
        elif result.partition is None:
            missing += 1
        elif isinstance(result.error, OffsetMovedToTieredStorage):
            pending.append(result)
        else:
            urgent = True
    return FetchResult(
        results, idle, size - size_before, missing, urgent, pending, regions - regions_before, unreported
    )


def opens_many_logs(topics: Topics, fetches: Sequence[PartitionFetch]) -> bool:
    """Return whether a pass would open more than `CLOSED_LOGS_MAX` logs."""
    closed = 0
    for fetch in fetches:
        # a cached partition was read before, and an idle one was read: this look caches none
        partition = _look_up(topics, fetch) if fetch.partition is None else fetch.partition
        closed += partition is not None and not partition.is_open
    return closed > CLOSED_LOGS_MAX


def _read_partition(topics: Topics, fetch: PartitionFetch, limits: FetchLimits, size: int) -> PartitionFetchResult:
    partition = fetch.partition
    if partition is None or partition.deleted:
        partition = find_partition(topics, fetch)
    if partition is None:
        is_unknown_id = isinstance(fetch.topic, bytes) and topics.find_by_id(fetch.topic) is None
        return PartitionFetchResult(fetch, None, error=UNKNOWN_ID if is_unknown_id else UNKNOWN_PARTITION)
    try:
        # The epoch first, as in Kafka (Partition.getLocalLog): a client with a wrong one gets that
        # error also where this broker does not lead.
        if fetch.leader_epoch != NO_EPOCH:
            partition.check_leader_epoch(fetch.leader_epoch)
        if not partition.is_leader:
            _check_readable(partition, fetch, limits)
        if fetch.last_fetched_epoch != NO_EPOCH:
            diverging = _divergence(partition, fetch)
            if diverging is not None:
                return PartitionFetchResult(fetch, partition, diverging=diverging)
        preferred = NO_REPLICA if limits.selector is None else limits.selector.select(partition, fetch.offset)
        if preferred != NO_REPLICA:
            # No records: the answer names the replica that is nearer, and the client fetches there.
            return PartitionFetchResult(fetch, partition, _no_records(partition, fetch), preferred=preferred)
        max_bytes = max(min(fetch.max_bytes, limits.max_bytes - size), 0)
        # The first partition with records gives a batch even if it is larger than all limits, as in
        # Kafka: else a consumer could never get past it (KIP-74).
        min_one_batch = size == 0 or limits.each_one_batch
        read = partition.read(
            fetch.offset, max_bytes, read_committed=limits.read_committed, min_one_batch=min_one_batch
        )
        return PartitionFetchResult(fetch, partition, read)
    except OffsetMovedToTieredStorage as moved:
        return _read_tiered(partition, fetch, limits, size, moved)
    except KqueueError as error:
        # its traceback would keep the whole pass alive in a reference cycle
        return PartitionFetchResult(fetch, partition, error=error.with_traceback(None))


def _read_tiered(
    partition: Partition, fetch: PartitionFetch, limits: FetchLimits, size: int, moved: OffsetMovedToTieredStorage
) -> PartitionFetchResult:
    """Return what was read from the tier for this fetch; with the error `moved` if that is still to
    be done.
    """
    max_bytes = max(min(fetch.max_bytes, limits.max_bytes - size), 0)
    min_one_batch = size == 0 or limits.each_one_batch
    try:
        if max_bytes == 0 and not min_one_batch:
            return PartitionFetchResult(fetch, partition, _no_records(partition, fetch))
        read = partition.tiered_read(
            fetch.offset, max_bytes, read_committed=limits.read_committed, min_one_batch=min_one_batch
        )
    except KqueueError as error:
        return PartitionFetchResult(fetch, partition, error=error.with_traceback(None))
    return PartitionFetchResult(fetch, partition, read, error=None if read is not None else moved.with_traceback(None))


def _no_records(partition: Partition, fetch: PartitionFetch) -> PartitionRead:
    """Return the watermarks of a partition, without records."""
    watermarks = partition.high_watermark, partition.last_stable_offset, partition.log_start_offset
    return PartitionRead(*watermarks, ReadResult(None, fetch.offset, 0, 0))


def _check_readable(partition: Partition, fetch: PartitionFetch, limits: FetchLimits) -> None:
    """Check that this replica, which does not lead, may serve the fetch.

    Raises: NotLeader: the fetch is not for followers, or there is no replica. OffsetNotAvailable: a
        follower does not have the offset yet. Source: KIP-392.
    """
    if not limits.from_followers:
        partition.check_leader()
    if fetch.offset > partition.log_end_offset:
        raise OffsetNotAvailable(f"{partition!r} is a follower that ends at {partition.log_end_offset}")


def find_partition(topics: Topics, fetch: PartitionFetch) -> Partition | None:
    """Return the partition, cached in `fetch`; None: no such topic or partition."""
    partition = fetch.partition
    if partition is None or partition.deleted:
        partition = _look_up(topics, fetch)
        # Only what exists is cached: an unknown partition is looked up again by each pass, so that
        # it is found once it is created.
        if partition is not None:
            fetch.partition = partition
    return partition


def _look_up(topics: Topics, fetch: PartitionFetch) -> Partition | None:
    topic = topics.find_by_id(fetch.topic) if isinstance(fetch.topic, bytes) else topics.find(fetch.topic)
    if topic is None or not 0 <= fetch.index < len(topic.partitions):
        return None
    return topic.partitions[fetch.index]


def _divergence(partition: Partition, fetch: PartitionFetch) -> DivergingEpoch | None:
    """Return where the logs diverge: the client's last epoch is unknown here, or ended below its
    offset.

    None: they agree. Raises OffsetOutOfRange: no common epoch. Source: KIP-595.
    """
    epoch, end_offset = partition.epoch_end(fetch.last_fetched_epoch)
    if epoch == NO_EPOCH or end_offset == NO_OFFSET:
        raise OffsetOutOfRange(
            f"{partition!r} knows no epoch up to {fetch.last_fetched_epoch}, which the client fetched last"
        )
    # Rule 16, as for followers: the client's log or position has records of an epoch that this
    # leader does not have, or has fewer of.
    if epoch < fetch.last_fetched_epoch or end_offset < fetch.offset:
        return DivergingEpoch(epoch, end_offset)
    return None
