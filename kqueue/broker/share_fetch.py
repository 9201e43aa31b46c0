"""Reads what the members of share groups fetch: the available records of share partitions.

One pass looks for the first available record of each partition and reads the logs from there;
`acquire` then gives the records to the member. Nothing is acquired before there is enough, so a
fetch that waits holds no records. Source: Kafka's DelayedShareFetch, ShareFetchUtils.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kqueue.base.errors import KqueueError, OffsetOutOfRange
from kqueue.broker.fetch_reader import FetchLimits, FetchResult, PartitionFetchResult, read_partitions
from kqueue.broker.fetch_sessions import PartitionFetch
from kqueue.broker.partition import Partition
from kqueue.broker.share_groups import OpenSharePartition, ShareGroups
from kqueue.broker.topics import Topics
from kqueue.records.batch import BATCH_OVERHEAD, BatchHeader, read_header
from kqueue.share.sessions import SessionPartition
from kqueue.share.share_partition import AcquiredRange, AcquireLimits
from kqueue.storage import Region

PASSES_MAX = 10
"""Passes in one turn over partitions whose records are all skipped."""


class SharePass(NamedTuple):
    """Result of one pass.

    Attributes:
        opened: partition of the session -> its share partition.
        errors: partition of the session -> why nothing is read.
        read: what was read, in the order of the session.
    """

    opened: dict[SessionPartition, OpenSharePartition]
    errors: dict[SessionPartition, KqueueError]
    read: FetchResult

    def keys(self) -> tuple[object, ...]:
        """Return the keys whose news may complete the fetch."""
        return (*self.opened.values(), *(opened.partition for opened in self.opened.values()))


class AcquiredRecords(NamedTuple):
    """Records of one partition for a member. `data`: whole batches with `ranges`."""

    ranges: list[AcquiredRange]
    data: Region | bytes


class _Batch(NamedTuple):
    header: BatchHeader
    position: int  # in the region


class ShareReader:
    """Reads and acquires for one member of a group."""

    def __init__(self, groups: ShareGroups, topics: Topics, group: str, member_id: str) -> None:
        self._groups = groups
        self._topics = topics
        self._group = group
        self._member_id = member_id

    def read(self, partitions: Sequence[SessionPartition], max_bytes: int) -> SharePass:
        """Read each partition from its first available record, at most `max_bytes` of all."""
        opened: dict[SessionPartition, OpenSharePartition] = {}
        errors: dict[SessionPartition, KqueueError] = {}
        fetches = []
        for partition in partitions:
            try:
                found = self._groups.open(self._group, *partition)
                if found.error is not None:
                    raise found.error
            except KqueueError as error:
                errors[partition] = error.with_traceback(None)
                continue
            opened[partition] = found
            offset = found.share.next_fetch_offset() if found.share is not None else None
            if offset is not None:
                fetches.append(PartitionFetch(*partition, offset, max_bytes, partition=found.partition))
        limits = FetchLimits(max_bytes, read_committed=self._groups.config_of(self._group).read_committed)
        result = SharePass(opened, errors, read_partitions(self._topics, fetches, limits))
        if self._has_moved(result):
            return self.read(partitions, max_bytes)
        return result

    def _has_moved(self, result: SharePass) -> bool:
        """Whether a log start has passed a share partition, which was moved behind it."""
        moved = False
        for each in result.read.results:
            share = result.opened[_key(each)].share
            if isinstance(each.error, OffsetOutOfRange) and each.partition is not None and share is not None:
                start = each.partition.log_start_offset
                if each.fetch.offset < start:
                    share.advance_start(start)
                    moved = True
        return moved

    def acquire(self, opened: OpenSharePartition, read: PartitionFetchResult, limits: AcquireLimits) -> AcquiredRecords:
        """Give the member what was read of a partition. Raises StorageFailed.

        Empty: what was read holds no records for this group, and is skipped from now on.
        """
        assert read.read is not None
        assert opened.share is not None
        fetched, offset = read.read.fetched, read.fetch.offset
        if fetched.region is None:
            return AcquiredRecords([], b"")
        if self._groups.config_of(self._group).read_committed:
            batches = list(_committed(fetched.region, opened.partition, offset, fetched.next_offset))
        else:
            batches = list(_first_batches(fetched.region, limits.records_max))
        spans = ((batch.header.base_offset, batch.header.last_offset) for batch in batches)
        ranges = opened.share.acquire(self._member_id, offset, spans, limits)
        if not ranges:
            if not batches:
                opened.share.skip(offset, fetched.next_offset)
            return AcquiredRecords([], b"")
        return AcquiredRecords(ranges, _slice(fetched.region, batches, ranges))


def _key(result: PartitionFetchResult) -> SessionPartition:
    assert isinstance(result.fetch.topic, bytes)
    return result.fetch.topic, result.fetch.index


def _batches(region: Region) -> Iterator[_Batch]:
    """Yield the batches of a region; only headers are read. Raises StorageFailed, CorruptBatch."""
    position = 0
    while position < region.size:
        header = read_header(region.source.read_at(region.position + position, BATCH_OVERHEAD))
        yield _Batch(header, position)
        position += header.size


def _first_batches(region: Region, records_max: int) -> Iterator[_Batch]:
    """Yield batches until they span more than `records_max` offsets."""
    first: int | None = None
    for batch in _batches(region):
        first = batch.header.base_offset if first is None else first
        if batch.header.base_offset - first > records_max + batch.header.last_offset - batch.header.base_offset:
            return
        yield batch


def _committed(region: Region, partition: Partition, offset: int, next_offset: int) -> Iterator[_Batch]:
    """Yield the batches that are not of aborted transactions. Source: Kafka's Fetcher."""
    aborted = [(each.first_offset, each.producer_id) for each in partition.log.reader.aborted(offset, next_offset)]
    heapq.heapify(aborted)
    producers: set[int] = set()
    for batch in _batches(region):
        header = batch.header
        while aborted and aborted[0][0] <= header.last_offset:
            producers.add(heapq.heappop(aborted)[1])
        if header.is_control:
            producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in producers:
            continue
        yield batch


def _slice(region: Region, batches: Sequence[_Batch], ranges: Sequence[AcquiredRange]) -> Region:
    """Return the part of a region with the batches of `ranges`."""
    begin = next(batch.position for batch in batches if batch.header.last_offset >= ranges[0].first)
    last = next(batch for batch in reversed(batches) if batch.header.base_offset <= ranges[-1].last)
    return Region(region.source, region.position + begin, last.position + last.header.size - begin)
