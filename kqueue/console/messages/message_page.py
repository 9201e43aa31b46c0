"""One page of a topic's messages: the newest, or those from an offset or a time on.

A page covers a range of offsets of each partition. The next page begins where it ends, the one
before ends where it begins, so both fit a link, and nothing is read twice or missed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kqueue.base.clock import monotonic_s
from kqueue.client import EARLIEST, LATEST, Client, TopicPartition
from kqueue.client.client import Isolation
from kqueue.client.errors import ClientError
from kqueue.console.messages.message import Fault, Message
from kqueue.console.messages.partition_scans import BackwardScan, ForwardScan, Matches, ReadBudget, ScanSettings

MiB = 1024 * 1024
Scan = ForwardScan | BackwardScan
FETCH_BYTES_MIN, FETCH_BYTES_MAX = 64 * 1024, MiB
"""Of one partition in one fetch; a larger batch is sent whole."""
FETCH_WAIT_MS = 200
"""A broker that limits this client may answer without records at first."""
CALL_TIMEOUT_MS = 3_000
"""A call begins only while time is left, and may take this much longer."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Bounds of one page.

    Attributes:
        messages: how many it has.
        records: how many records are looked at; fetched_bytes: how much is fetched for it.
        seconds: after which no further fetch begins.
        excerpt_bytes: how much of each key and value is held.
        held_bytes: how much memory all its messages take.
    """

    messages: int = 50
    records: int = 500_000
    fetched_bytes: int = 32 * MiB
    seconds: float = 5.0
    excerpt_bytes: int = 64 * 1024
    held_bytes: int = 32 * MiB


class OffsetRange(NamedTuple):
    """The offsets of a partition: of its first record, and after its last one."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What to read.

    Attributes:
        offsets: by partition: where to begin; forward: the first offset, backward: the one after
            the last.
        direction: "backward" has the newest first.
        matches: which records count; None: all.
    """

    topic: str
    offsets: Mapping[int, int]
    direction: Literal["forward", "backward"]
    isolation: Isolation = "read_uncommitted"
    matches: Matches | None = None
    limits: ReadLimits = ReadLimits()


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages with what was read for them.

    Attributes:
        messages: forward by time, each partition in the order of its offsets; backward reversed.
        faults: where records can't be read.
        lower, upper: by partition, the offsets from and to (exclusive) which the page goes.
        ranges: by partition, those of its log.
        records_read, bytes_read: what it cost.
        stopped_by: the limit that ended the reading before it was done; None: none.
    """

    messages: Sequence[Message]
    faults: Sequence[Fault]
    lower: Mapping[int, int]
    upper: Mapping[int, int]
    ranges: Mapping[int, OffsetRange]
    records_read: int
    bytes_read: int
    stopped_by: str | None

    @property
    def has_older(self) -> bool:
        """Whether there are offsets before the page."""
        return any(offset > self.ranges[partition].start for partition, offset in self.lower.items())

    @property
    def has_newer(self) -> bool:
        """Whether there are offsets after the page."""
        return any(offset < self.ranges[partition].end for partition, offset in self.upper.items())


def offset_ranges(
    client: Client, topic: str, partitions: Sequence[int], isolation: Isolation = "read_uncommitted"
) -> dict[int, OffsetRange]:
    """Return the offsets that each partition has now; with read_committed up to the first open
    transaction.

    Raises: ClientError.
    """
    asked = [TopicPartition(topic, partition) for partition in partitions]
    if not asked:
        return {}
    starts = client.offsets(dict.fromkeys(asked, EARLIEST))
    ends = client.offsets(dict.fromkeys(asked, LATEST), isolation=isolation)
    return {one.partition: OffsetRange(starts[one].offset or 0, ends[one].offset or 0) for one in asked}


def offsets_at(client: Client, topic: str, ranges: Mapping[int, OffsetRange], time_ms: int) -> dict[int, int]:
    """Return the first offset of each partition whose time is `time_ms` or later; its end if none
    is. Raises: ClientError.
    """
    if not ranges:
        return {}
    at = client.offsets({TopicPartition(topic, partition): max(0, time_ms) for partition in ranges})
    return {
        one.partition: ranges[one.partition].end if start.offset is None else start.offset for one, start in at.items()
    }


def read_page(client: Client, request: ReadRequest, ranges: Mapping[int, OffsetRange]) -> MessagePage:
    """Return one page; offsets outside of `ranges` begin at the nearest that is inside.

    Raises: ClientError: nothing could be read. What fails for one partition is a fault of it.
    """
    limits = request.limits
    budget = ReadBudget(limits.records, limits.fetched_bytes, monotonic_s() + limits.seconds)
    settings = ScanSettings(
        limits.messages,
        budget,
        request.matches,
        request.isolation == "read_committed",
        limits.excerpt_bytes,
        limits.held_bytes // max(1, len(request.offsets)),
    )
    scans = [
        _scan(partition, offset, ranges[partition], request.direction, settings)
        for partition, offset in sorted(request.offsets.items())
        if partition in ranges
    ]
    _Fetches(client, request, budget).run(scans)
    messages = _merged(scans, limits.messages, newest_first=request.direction == "backward")
    is_unfinished = len(messages) < limits.messages and any(scan.fetch_offset is not None for scan in scans)
    return MessagePage(
        messages,
        [fault for scan in scans for fault in scan.faults],
        {scan.partition: scan.lower for scan in scans},
        {scan.partition: scan.upper for scan in scans},
        ranges,
        budget.records_read,
        budget.bytes_read,
        budget.spent if is_unfinished else None,
    )


def read_message(
    client: Client, topic: str, partition: int, offset: int, *, excerpt_bytes: int = 128 * MiB
) -> Message | Fault | None:
    """Return the message of an offset; None: there is none, as after compaction.

    Raises: ClientError: for example the offset is not in the log.
    """
    limits = ReadLimits(1, 1_000_000, 1, 10.0, excerpt_bytes, 1)
    request = ReadRequest(topic, {partition: offset}, "forward", limits=limits)
    page = read_page(client, request, {partition: OffsetRange(offset, offset + 1)})
    return page.messages[0] if page.messages else page.faults[0] if page.faults else None


def _scan(partition: int, offset: int, range: OffsetRange, direction: str, settings: ScanSettings) -> Scan:
    offset = min(max(offset, range.start), range.end)
    if direction == "forward":
        return ForwardScan(partition, offset, range.end, settings)
    return BackwardScan(partition, offset, range.start, settings)


class _Fetches:
    """The fetches of one page: all partitions in one call, until every scan is over."""

    def __init__(self, client: Client, request: ReadRequest, budget: ReadBudget) -> None:
        self._client = client
        self._request = request
        self._budget = budget

    def run(self, scans: Sequence[Scan]) -> None:
        """Fetch for all scans. Raises: ClientError: the first call failed for all partitions."""
        is_first = True
        while is_first or self._budget.spent is None:
            offsets = {scan.partition: offset for scan in scans if (offset := scan.fetch_offset) is not None}
            if not offsets:
                return
            try:
                self._fetch({scan.partition: scan for scan in scans}, offsets)
            except ClientError as error:
                if is_first and not error.failed:
                    raise
                for scan in scans:
                    if scan.fetch_offset is not None:
                        scan.fail(str(error))
            is_first = False

    def _fetch(self, scans: Mapping[int, Scan], offsets: Mapping[int, int]) -> None:
        fetch_bytes = min(max(self._request.limits.fetched_bytes // len(offsets), FETCH_BYTES_MIN), FETCH_BYTES_MAX)
        asked = {TopicPartition(self._request.topic, partition): offset for partition, offset in offsets.items()}
        try:
            fetched = self._client.fetch(
                asked,
                max_bytes=fetch_bytes * len(offsets),
                partition_max_bytes=fetch_bytes,
                max_wait_ms=FETCH_WAIT_MS,
                isolation=self._request.isolation,
                timeout_ms=CALL_TIMEOUT_MS + max(0, int((self._budget.end_s - monotonic_s()) * 1000)),
            )
        except ClientError as error:
            if not error.failed:
                raise
            for one, reason in error.failed.items():
                scans[one[1]].fail(str(reason))
            fetched = dict(error.done)
        for one, records in fetched.items():
            self._budget.bytes_read += len(records.records)
            scans[one[1]].take(records)


def _merged(scans: Sequence[Scan], count: int, *, newest_first: bool) -> list[Message]:
    """Return the first `count` messages of all scans by time; cut each scan to those of it."""
    lists = [scan.messages for scan in scans]
    sign = -1 if newest_first else 1

    def by_time(message: Message) -> tuple[int, int]:
        return sign * message.timestamp_ms, message.partition

    merged = list(_first(heapq.merge(*lists, key=by_time), count))
    taken: dict[int, int] = {}
    for message in merged:
        taken[message.partition] = taken.get(message.partition, 0) + 1
    for scan in scans:
        scan.cut(taken.get(scan.partition, 0))
    return merged


def _first(messages: Iterator[Message], count: int) -> Iterator[Message]:
    for _, message in zip(range(count), messages, strict=False):
        yield message
