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
from kqueue.broker.fetch.fetch_reader import FetchLimits, FetchResult, PartitionFetchResult, read_partitions
from kqueue.broker.fetch.fetch_sessions import PartitionFetch
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.share.share_groups import OpenSharePartition, ShareGroups
from kqueue.broker.share.share_headers import ReadBatch, ReadHeaders
from kqueue.broker.topics.topics import Topics
from kqueue.log.results import ReadResult, TieredReadResult
from kqueue.share.sessions import SessionPartition
from kqueue.share.share_partition import AcquiredRange, AcquireLimits
from kqueue.storage import Region


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


class ShareReader:
    """Reads and acquires for one member of a group."""

    def __init__(self, groups: ShareGroups, topics: Topics, group: str, member_id: str) -> None:
        self._groups = groups
        self._topics = topics
        self._group = group
        self._member_id = member_id

    @property
    def read_committed(self) -> bool:
        """Whether the group reads committed records only."""
        return self._groups.config_of(self._group).read_committed

    def read(self, partitions: Sequence[SessionPartition], max_bytes: int) -> SharePass:
        """Read each partition from its first available record, at most `max_bytes` of all."""
        opened: dict[SessionPartition, OpenSharePartition] = {}
        errors: dict[SessionPartition, KqueueError] = {}
        fetches = []
        for partition in partitions:
            try:
                opened_partition = self._groups.open(self._group, *partition)
            except KqueueError as error:
                errors[partition] = error.with_traceback(None)
                continue
            opened[partition] = opened_partition
            offset = opened_partition.share.next_fetch_offset() if opened_partition.share is not None else None
            if offset is not None:
                fetches.append(PartitionFetch(*partition, offset, max_bytes, partition=opened_partition.partition))
        limits = FetchLimits(max_bytes, read_committed=self.read_committed)
        result = SharePass(opened, errors, read_partitions(self._topics, fetches, limits))
        if self._has_moved(result):
            # Once more, from the new starts: deleted records are no error to a share group
            # (KIP-932).
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

    def acquire(
        self, opened: OpenSharePartition, read: PartitionFetchResult, headers: ReadHeaders, limits: AcquireLimits
    ) -> AcquiredRecords:
        """Give the member what was read of a partition. Raises StorageFailed.

        Args: headers: of the first batches that were read.
        Empty: these batches hold no records for this group, and are skipped from now on.
        """
        assert read.read is not None
        assert opened.share is not None
        region, offset, batches = read.read.fetched.region, read.fetch.offset, headers.batches
        assert region is not None
        if self.read_committed:
            batches = list(_committed(headers, opened.partition, read.read.fetched, offset))
        spans = ((batch.header.base_offset, batch.header.last_offset) for batch in batches)
        ranges = opened.share.acquire(self._member_id, offset, spans, limits)
        if not ranges:
            if not batches:
                # All that was read is left out: without this the next pass would read it again.
                opened.share.skip(offset, headers.next_offset)
            return AcquiredRecords([], b"")
        records = _slice(region, batches, ranges)
        is_in_memory = isinstance(read.read.fetched, TieredReadResult)
        return AcquiredRecords(ranges, records.read() if is_in_memory else records)


def _key(result: PartitionFetchResult) -> SessionPartition:
    assert isinstance(result.fetch.topic, bytes)
    return result.fetch.topic, result.fetch.index


def _committed(headers: ReadHeaders, partition: Partition, fetched: ReadResult, offset: int) -> Iterator[ReadBatch]:
    """Yield the batches that are not of aborted transactions. Source: Kafka's Fetcher."""
    if isinstance(fetched, TieredReadResult):
        aborted_transactions = fetched.aborted
    else:
        aborted_transactions = partition.log.reader.aborted(offset, headers.next_offset)
    aborted = [(each.first_offset, each.producer_id) for each in aborted_transactions]
    heapq.heapify(aborted)
    producers: set[int] = set()
    for batch in headers.batches:
        header = batch.header
        while aborted and aborted[0][0] <= header.last_offset:
            producers.add(heapq.heappop(aborted)[1])
        if header.is_control:
            producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in producers:
            continue
        yield batch


def _slice(region: Region, batches: Sequence[ReadBatch], ranges: Sequence[AcquiredRange]) -> Region:
    """Return the part of a region with the batches of `ranges`."""
    begin = next(batch.position for batch in batches if batch.header.last_offset >= ranges[0].first)
    last = next(batch for batch in reversed(batches) if batch.header.base_offset <= ranges[-1].last)
    return Region(region.source, region.position + begin, last.position + last.header.size - begin)
