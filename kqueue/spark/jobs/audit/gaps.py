"""Explains offsets without a record from the headers of the batches around them. No pyspark.

A transaction marker takes an offset that no reader sees. A batch with fewer records than offsets
was compacted. Where no batch is at all, compaction may have removed it whole; in a topic that was
never compacted, records are missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kqueue.base.errors import CorruptBatch
from kqueue.client import LATEST
from kqueue.client.topic_partition import TopicPartition
from kqueue.log_tools.folder import LogFolder
from kqueue.records.any_format import iter_any_batches
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, iter_records
from kqueue.records.message_set import entry_records
from kqueue.records.record import ABORT, COMMIT, Record, decode_control
from kqueue.spark.jobs.audit.partition_summary import Ranges
from kqueue.spark.offsets import Offsets
from kqueue.spark.source.broker_reader import BrokerReader
from kqueue.spark.source.file_reader import FileReader
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.record_reader import RecordReader
from kqueue.spark.source.transaction_index import LastStableOffset

MARKER, COMPACTED, DELETED, MISSING = "marker", "compacted", "deleted", "missing"
FETCH_BYTES = 8 * 1024 * 1024
GAPS_NAMED = 5


class Gap(NamedTuple):
    """Offsets in [first, end) without a record.

    why: DELETED, MARKER, COMPACTED or MISSING; the worst that applies to a part of it.
    """

    first: int
    end: int
    why: str


class BatchSpan(NamedTuple):
    """The offsets and records of a batch.

    control: the type of a control batch (ABORT, COMMIT, …); None: data. producer: the producer id
    of a transactional batch; None: not transactional.
    """

    first: int
    last: int
    records: int
    control: int | None = None
    producer: int | None = None


@dataclass
class GapReport:
    """The causes of offsets without a record, as the batches tell them.

    markers, compacted, between: offsets of control batches, missing inside batches, and outside any
    batch. aborted, open: records of aborted and of open transactions. ranges: `Gap`s of MARKER, and
    of MISSING where no batch is.
    """

    markers: int = 0
    compacted: int = 0
    between: int = 0
    aborted: int = 0
    open: int = 0
    ranges: list[Gap] = field(default_factory=list)


def find_gaps(spans: Iterable[BatchSpan], start: int, end: int, near: Ranges) -> GapReport:
    """Scan batches in [start, end).

    Args:
        near: ascending ranges; only gaps that touch one of them are listed.
    """
    report, at, number = GapReport(), start, 0
    begun: dict[int, int] = {}

    def hole(first: int, last: int, why: str) -> None:
        nonlocal number
        while number < len(near) and near[number][1] <= first:
            number += 1
        if number < len(near) and near[number][0] < last:
            report.ranges.append(Gap(first, last, why))

    for span in spans:
        first, last = max(span.first, at), min(span.last + 1, end)
        if first > at:
            report.between += min(first, end) - at
            hole(at, min(first, end), MISSING)
        if span.control is not None:
            report.markers += max(last - first, 0)
            hole(first, last, MARKER)
        else:
            is_whole = span.first >= start and span.last < end
            report.compacted += span.last - span.first + 1 - span.records if is_whole else 0
        _follow(report, begun, span, min(span.records, max(last - first, 0)))
        at = max(at, last)
    if at < end:
        report.between += end - at
        hole(at, end, MISSING)
    report.open = sum(begun.values())
    return report


def _follow(report: GapReport, begun: dict[int, int], span: BatchSpan, records: int) -> None:
    """Count records of transactions. records: those of the span that are between start and end."""
    if span.producer is None:
        return
    if span.control is None:
        begun[span.producer] = begun.get(span.producer, 0) + records
        return
    count = begun.pop(span.producer, 0) if span.control in (ABORT, COMMIT) else 0
    report.aborted += count if span.control == ABORT else 0


def explain_gaps(gaps: Ranges, report: GapReport, *, is_compacted: bool) -> list[Gap]:
    """Return each range with its reason: the worst that applies to a part of it.

    Args:
        is_compacted: compaction may have removed whole batches.
    """
    result, ranges = [], iter(report.ranges)
    hole = next(ranges, None)
    for first, end in gaps:
        covered, why = 0, MARKER
        while hole is not None and hole.first < end:
            size = min(hole.end, end) - max(hole.first, first)
            if size > 0:
                covered += size
                if hole.why == MISSING:
                    why = COMPACTED if is_compacted else MISSING
            if hole.end > end:
                break
            hole = next(ranges, None)
        if covered < end - first and why == MARKER:
            why = COMPACTED
        result.append(Gap(first, end, why))
    return result


# --- reading headers


def stable_offsets(reader: RecordReader, ends: Offsets) -> Offsets:
    """Return the last stable offset of each partition: its first one of an open transaction, or its
    end. Raises: CorruptBatch, ClientError, StorageFailed.
    """
    if isinstance(reader, FileReader):
        return {one: LastStableOffset().find(_folder(reader, one), end, None) for one, end in ends.items()}
    assert isinstance(reader, BrokerReader)
    offsets = reader.client.offsets(dict.fromkeys(ends, LATEST), isolation="read_committed") if ends else {}
    known = {one: answer.offset for one, answer in offsets.items() if answer.offset is not None}
    return {one: min(known.get(one, end), end) for one, end in ends.items()}


def scan_start(reader: RecordReader, topic_partition: TopicPartition, start: int, gap: int, stable: int) -> int:
    """Return the offset where a scan has to begin that counts the records of transactions.

    Markers end transactions whose records are before them, so a scan from the first gap on, which
    may be a marker, would miss these. Brokers list aborted transactions with their first offset,
    below the last stable offset only: those that have ended since began before it, and span the
    last offset below it, or began at it or later. The batches of a folder are read from its start.

    Args:
        start: of the log. gap: the first offset without a record; without any, `stable`.
        stable: the last stable offset.
    """
    if isinstance(reader, FileReader):
        return start
    assert isinstance(reader, BrokerReader)
    looked = max(start, min(gap, stable - 1))
    fetched = reader.client.fetch(
        {topic_partition: looked}, max_bytes=1, partition_max_bytes=1, max_wait_ms=1, isolation="read_committed"
    )[topic_partition]
    return max(start, min([gap, stable, *(first for _, first in fetched.aborted)]))


def _folder(reader: FileReader, topic_partition: TopicPartition) -> LogFolder:
    return LogFolder(reader.storage, f"{topic_partition.topic}-{topic_partition.partition}")


def batch_spans(
    reader: RecordReader, options: SourceOptions, topic_partition: TopicPartition, start: int, end: int
) -> Iterator[BatchSpan]:
    """Yield the batches from the one with `start` to the last that begins before `end`.

    Checksums are not verified. Raises: CorruptBatch, ClientError, StorageFailed.
    """
    if isinstance(reader, FileReader):
        return _in_folder(reader, topic_partition, start, end)
    assert isinstance(reader, BrokerReader)
    return _on_wire(reader, topic_partition, start, end)


def _in_folder(reader: FileReader, topic_partition: TopicPartition, start: int, end: int) -> Iterator[BatchSpan]:
    log = _folder(reader, topic_partition)
    for batch in log.batches(start_offset=max(start, log.start_offset), end_offset=end, check=False):
        if isinstance(batch.unit, BatchHeader):
            yield _span(batch.unit, batch.records())
        else:
            yield _old_span(batch.records(), batch.last_offset)


def _on_wire(reader: BrokerReader, topic_partition: TopicPartition, start: int, end: int) -> Iterator[BatchSpan]:
    at = start
    while at < end:
        records = reader.client.fetch(
            {topic_partition: at}, max_bytes=FETCH_BYTES, partition_max_bytes=FETCH_BYTES, max_wait_ms=1
        )[topic_partition].records
        begin = at
        for position, unit in iter_any_batches(records):
            if isinstance(unit, BatchHeader):
                if unit.base_offset >= end:
                    return
                yield _span(unit, iter_records(records, position))
            else:
                yield _old_span(entry_records(unit, DECOMPRESSED_BYTES_MAX), unit.last_offset)
            at = unit.next_offset
        if at == begin:
            return


def _span(header: BatchHeader, records: Iterator[Record]) -> BatchSpan:
    control = None
    if header.is_control:
        with contextlib.suppress(CorruptBatch, StopIteration):
            control = decode_control(next(records))[0]
        control = -1 if control is None else control
    producer = header.producer_id if header.is_transactional else None
    return BatchSpan(header.base_offset, header.last_offset, header.record_count, control, producer)


def _old_span(records: Iterable[Record], last: int) -> BatchSpan:
    """Return a span of old formats, whose compressed messages store only their last offset."""
    offsets = [record.offset for record in records]
    return BatchSpan(min(offsets, default=last), last, len(offsets))
