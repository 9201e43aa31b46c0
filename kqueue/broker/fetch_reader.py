"""What a fetch takes from its partitions: one pass in order, within its limits. Nothing is kept
between passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kqueue.base.errors import KqueueError, OffsetOutOfRange, TooManyOpenFiles, UnknownTopicId, UnknownTopicOrPartition
from kqueue.broker.fetch_sessions import Key, PartitionFetch
from kqueue.broker.partition import Partition, PartitionRead
from kqueue.broker.topics import Topics
from kqueue.log.recovery.read_verification import VerificationTask
from kqueue.log.results import ReadResult

REGIONS_MAX = 64
"""So many partitions give records to one answer: each may hold a descriptor until the client has
read it. The others have their turn with the next fetch, as where `max_bytes` is reached.
"""
NO_EPOCH = -1
NO_OFFSET = -1
UNKNOWN_PARTITION = UnknownTopicOrPartition("there is no such topic, or it has no such partition")
UNKNOWN_ID = UnknownTopicId("no topic has this id")


class FetchLimits(NamedTuple):
    """Bounds of one fetch. `max_bytes`: of all records together; the first partition that has any
    gives at least one batch, however large. `each_one_batch`: each partition does.
    `read_committed`: stop before open transactions.
    """

    max_bytes: int
    each_one_batch: bool = False
    read_committed: bool = False

    def without_records(self) -> FetchLimits:
        """For the rest of a fetch that has enough: partitions give their offsets, and no records."""
        return FetchLimits(0, read_committed=self.read_committed)


class DivergingEpoch(NamedTuple):
    """Where a client's log parts from ours: the last epoch that both have, and where it ends here."""

    epoch: int
    end_offset: int


@dataclass(slots=True)
class PartitionFetchResult:
    """What one partition gave: `read`, or why there is none: `diverging` or `error`. `partition` is
    None if it was not found.
    """

    wanted: PartitionFetch
    partition: Partition | None
    read: PartitionRead | None = None
    diverging: DivergingEpoch | None = None
    error: KqueueError | None = None


class FetchResult(NamedTuple):
    """One pass. `idle`: partitions that are where their client is, with nothing new to read; the
    others are `taken`.

    `size`: bytes of records; `regions`: how many partitions gave any. `missing`: how many
    partitions there are not. `unchecked`: those among `taken` whose checksums have to be compared
    before their records may be served; once that was done the pass is to be repeated.

    `urgent`: a partition that there is has news that must not wait: an error, or a divergence. That
    one is not there can wait: its client would only ask again at once, until it has heard where its
    topics are.
    """

    taken: list[PartitionFetchResult]
    idle: list[tuple[PartitionFetch, Partition]]
    size: int
    missing: int
    urgent: bool
    unchecked: list[PartitionFetchResult]
    regions: int

    def partitions(self) -> tuple[Partition, ...]:
        """Those to wait for."""
        idle = [partition for _, partition in self.idle]
        return (*idle, *(one.partition for one in self.taken if one.partition is not None))

    def to_check(self) -> Iterator[tuple[Partition, Key, VerificationTask]]:
        """What has to be done for those that are unchecked."""
        for one in self.unchecked:
            if one.partition is not None and one.read is not None and one.read.fetched.check is not None:
                yield one.partition, one.wanted.key, one.read.fetched.check

    def leave_unchecked(self) -> None:
        """Those that are unchecked give nothing this time."""
        for one in self.unchecked:
            if one.read is not None:
                one.read = one.read._replace(fetched=ReadResult(None, one.wanted.offset, 0, 0))

    def fail_unchecked(self, failed: Mapping[Key, KqueueError]) -> None:
        """Those of them that could not be checked give an error."""
        for one in self.unchecked:
            if one.wanted.key in failed:
                one.read, one.error = None, failed[one.wanted.key]
        self.unchecked[:] = [one for one in self.unchecked if one.error is None]

    def extended(self, later: FetchResult) -> FetchResult:
        """This pass and `later`, which went on where this one ended; their lists are joined in
        place.
        """
        self.taken.extend(later.taken)
        self.idle.extend(later.idle)
        self.unchecked.extend(later.unchecked)
        urgent = self.urgent or later.urgent
        return self._replace(
            size=self.size + later.size,
            missing=self.missing + later.missing,
            urgent=urgent,
            regions=self.regions + later.regions,
        )


def take(
    topics: Topics, wanted: Sequence[PartitionFetch], limits: FetchLimits, before: FetchResult | None = None
) -> FetchResult:
    """Read each partition from the offset where its client is. Never raises a KqueueError: each
    stands with its partition.

    `before`: what was read before for the same fetch, and counts against its limits.
    """
    taken: list[PartitionFetchResult] = []
    idle: list[tuple[PartitionFetch, Partition]] = []
    unchecked: list[PartitionFetchResult] = []
    size_before, regions = (before.size, before.regions) if before is not None else (0, 0)
    size, regions_before, missing, urgent = size_before, regions, 0, False
    if regions >= REGIONS_MAX:
        limits = limits.without_records()
    for one in wanted:
        partition = one.partition
        if partition is not None and _is_idle(one, partition):
            idle.append((one, partition))
            continue
        found = _take_one(topics, one, limits, size)
        if regions and isinstance(found.error, TooManyOpenFiles):  # what has been found is enough for this time
            limits = limits.without_records()
            found = _take_one(topics, one, limits, size)
        taken.append(found)
        if found.read is not None:
            size += len(found.read.fetched)
            regions += found.read.fetched.region is not None
            if regions == REGIONS_MAX:
                limits = limits.without_records()
            if found.read.fetched.check is not None:
                unchecked.append(found)
        elif found.partition is None:
            missing += 1
        else:
            urgent = True
    return FetchResult(taken, idle, size - size_before, missing, urgent, unchecked, regions - regions_before)


def _is_idle(one: PartitionFetch, partition: Partition) -> bool:
    """Whether a partition that was found before has nothing new and nothing wrong: what most of a
    long session's are, each time.
    """
    return (
        not partition.deleted
        and one.offset == partition.high_watermark
        and one.leader_epoch in (NO_EPOCH, partition.leader_epoch)
        and one.last_fetched_epoch == NO_EPOCH
        and partition.log.offline is None
    )


def _take_one(topics: Topics, one: PartitionFetch, limits: FetchLimits, size: int) -> PartitionFetchResult:
    partition = find(topics, one)
    if partition is None:
        is_unknown_id = isinstance(one.topic, bytes) and topics.find_by_id(one.topic) is None
        return PartitionFetchResult(one, None, error=UNKNOWN_ID if is_unknown_id else UNKNOWN_PARTITION)
    try:
        partition.check_leader_epoch(one.leader_epoch)
        if one.last_fetched_epoch != NO_EPOCH:
            diverging = _divergence(partition, one)
            if diverging is not None:
                return PartitionFetchResult(one, partition, diverging=diverging)
        max_bytes = max(min(one.max_bytes, limits.max_bytes - size), 0)
        min_one_batch = size == 0 or limits.each_one_batch
        read = partition.read(one.offset, max_bytes, read_committed=limits.read_committed, min_one_batch=min_one_batch)
        return PartitionFetchResult(one, partition, read)
    except KqueueError as error:
        # without its traceback, which would hold the whole pass in a reference cycle
        return PartitionFetchResult(one, partition, error=error.with_traceback(None))


def find(topics: Topics, one: PartitionFetch) -> Partition | None:
    """The partition, which `one` remembers for the next time; None: there is no such topic, or it
    has no such partition.
    """
    partition = one.partition
    if partition is None or partition.deleted:
        topic = topics.find_by_id(one.topic) if isinstance(one.topic, bytes) else topics.find(one.topic)
        if topic is None or not 0 <= one.index < len(topic.partitions):
            return None
        partition = one.partition = topic.partitions[one.index]
    return partition


def _divergence(partition: Partition, one: PartitionFetch) -> DivergingEpoch | None:
    """Source: KIP-595: the client's last epoch is unknown here, or ended before where the client
    is.
    """
    epoch, end_offset = partition.log.epochs.end_offset_for(one.last_fetched_epoch, partition.log.end_offset)
    if epoch == NO_EPOCH or end_offset == NO_OFFSET:
        raise OffsetOutOfRange(
            f"{partition!r} knows no epoch up to {one.last_fetched_epoch}, which the client fetched last"
        )
    if epoch < one.last_fetched_epoch or end_offset < one.offset:
        return DivergingEpoch(epoch, end_offset)
    return None
