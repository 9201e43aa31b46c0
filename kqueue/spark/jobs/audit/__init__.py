"""Audits topics in one pass over all records: contents, missing offsets, duplicates, group lag.

`record_scan` has Spark summarize the records as `partition_summary` defines. `gaps` explains
missing offsets from batch headers, `group_lag` reads group offsets, `compaction_state` the cleanup
policies. `report` is the result; `charts`, `formatting` and `html_report` present it. Only
`record_scan` imports pyspark.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kqueue.base.clock import wall_ms
from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.errors import OptionError
from kqueue.spark.jobs.audit import gaps as gap_explanation
from kqueue.spark.jobs.audit.compaction_state import CompactionState, compaction
from kqueue.spark.jobs.audit.gaps import GAPS_NAMED, Gap
from kqueue.spark.jobs.audit.group_lag import OFFSETS_TOPIC, GroupLag, check_groups, group_lags
from kqueue.spark.jobs.audit.partition_summary import PartitionSummary, Ranges, merge_summaries
from kqueue.spark.jobs.audit.report import AuditReport, PartitionAudit
from kqueue.spark.jobs.parallelism import rows_per_task
from kqueue.spark.jobs.progress import ProgressListener, silent, watched
from kqueue.spark.offsets import Offsets, to_json
from kqueue.spark.source.file_reader import FileReader
from kqueue.spark.source.options import SourceOptions, parse_options
from kqueue.spark.source.reader_factory import find_some, open_first, refuse_if_all_unread
from kqueue.spark.source.record_reader import RecordReader
from kqueue.spark.source.split_planner import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kqueue.spark.jobs.audit.record_scan import DuplicateRecords

__all__ = ["AuditReport", "Gap", "PartitionAudit", "audit"]
OWN = r"^(?!__cluster_metadata$)"
"""All topics except internal and staging ones (the source omits them) and controller metadata."""
TASK_ROWS, TASKS_MAX = 1_000_000, 2_000
"""Offsets per task: small enough for progress reports and parallelism. Each task returns a summary.
"""
_CHOOSING = ("subscribe", "subscribepattern", "assign")
_PLANNED = (
    *_CHOOSING,
    "startingoffsets",
    "endingoffsets",
    "failondataloss",
    "includeheaders",
    "minpartitions",
    "maxrecordsperpartition",
)


def audit(
    spark: SparkSession, source: Mapping[str, str], *, groups: Sequence[str] = (), tell: ProgressListener = silent
) -> AuditReport:
    """Read every record of topics and return the report.

    Args:
        source: options of the kqueue source for batch queries; without a topic selection: all
            except internal topics.
        groups: whose lag to report; empty: all groups.
    Raises: OptionError: also if there are records, and all are in segments that are not read.
        ClientError, StorageFailed, CorruptBatch.
    """
    options = _options(source)
    with contextlib.closing(open_first(options)) as reader:
        ranges = _ranges(options, reader)
        known, unknown = _lags(reader, groups, ranges)
        summaries, repeated = _count(spark, source, ranges, tell)
        starts = reader.earliest([one.topic_partition for one in ranges])
        why = compaction(reader, sorted({one.topic for one in ranges}))
        stable = gap_explanation.stable_offsets(reader, {one.topic_partition: one.end for one in ranges if one.size})
        rows = []
        done, total = 0, sum(one.size for one in ranges)
        for one in ranges:
            tell("explain", done, total)
            seen = merge_summaries(summaries.get(one.topic_partition, ()))
            row = _facts(one, starts.get(one.topic_partition, one.start), seen, why.policies.get(one.topic))
            row = _explained(row, one, seen, options, reader, why, stable.get(one.topic_partition, one.end))
            rows.append(_with_repeated(row, repeated.get(one.topic_partition)))
            done += one.size
        unread = reader.unread([one.topic_partition for one in ranges])
    location = str(options["path"] or options["kafka.bootstrap.servers"])
    return AuditReport(location, wall_ms(), rows, known, unknown, f"{unread}." if unread else "")


def check(source: Mapping[str, str], groups: Sequence[str] = ()) -> None:
    """Raise what is wrong before Spark is needed: as `audit`."""
    options = _options(source)
    with contextlib.closing(open_first(options)) as reader:
        _ranges(options, reader)
        if groups and not _groups_unknown(reader):
            check_groups(reader, groups)


def _options(source: Mapping[str, str]) -> SourceOptions:
    options = parse_options(_chosen(source), streaming=False)
    if options.tier is not None:
        raise OptionError(
            f"path: {options['path']} is a tier, and audits are of brokers and data folders, which know why offsets "
            "have no records; read the tier by way of its brokers, with kafka.bootstrap.servers alone"
        )
    return options


def _chosen(source: Mapping[str, str]) -> dict[str, str]:
    is_chosen = any(name.lower() in _CHOOSING for name in source)
    return dict(source) if is_chosen else {**source, "subscribePattern": OWN}


def _ranges(options: SourceOptions, reader: RecordReader) -> list[OffsetRange]:
    is_chosen = options.topics.pattern != OWN
    partitions = find_some(reader, options) if is_chosen else reader.find_partitions(options.topics, strict=True)
    refuse_if_all_unread(reader, partitions)
    starts, ends = reader.earliest(partitions), reader.latest(partitions)
    return [
        OffsetRange(
            *topic_partition,
            min(starts.get(topic_partition, 0), ends.get(topic_partition, 0)),
            ends.get(topic_partition, 0),
        )
        for topic_partition in partitions
    ]


def _lags(reader: RecordReader, groups: Sequence[str], ranges: Sequence[OffsetRange]) -> tuple[list[GroupLag], str]:
    unknown = _groups_unknown(reader)
    if unknown:
        return [], unknown
    return group_lags(
        reader,
        groups,
        {one.topic_partition: one.start for one in ranges},
        {one.topic_partition: one.end for one in ranges},
    ), ""


def _groups_unknown(reader: RecordReader) -> str:
    """Return why nothing is known of groups; "": it is."""
    if not isinstance(reader, FileReader) or any(
        reader.storage.exists(f"{OFFSETS_TOPIC}-{number}") for number in range(1000)
    ):
        return ""
    return f"{reader.storage.location} has no {OFFSETS_TOPIC}, where groups leave their offsets; ask a broker for lag"


def _count(
    spark: SparkSession, source: Mapping[str, str], ranges: Sequence[OffsetRange], tell: ProgressListener
) -> tuple[Mapping[TopicPartition, list[PartitionSummary]], Mapping[TopicPartition, DuplicateRecords]]:
    from kqueue.spark.jobs.audit.record_scan import scan_records

    full = [one for one in ranges if one.size]
    if not full:
        return {}, {}
    total = sum(one.size for one in full)
    rows_max = max(min(TASK_ROWS, rows_per_task(spark, total)), total // TASKS_MAX)
    assigned: dict[str, list[int]] = {}
    for one in full:
        assigned.setdefault(one.topic, []).append(one.partition)
    rest = {name: value for name, value in source.items() if name.lower() not in _PLANNED}
    options = {
        **rest,
        "assign": json.dumps(assigned),
        "startingOffsets": _offsets({one.topic_partition: one.start for one in full}),
        "endingOffsets": _offsets({one.topic_partition: one.end for one in full}),
        "includeHeaders": "true",
        "maxRecordsPerPartition": str(rows_max),
        "failOnDataLoss": "false",  # records deleted during the read are reported as deleted
    }
    records = spark.read.format("kqueue").options(**options).load()
    with watched(spark, "audit", 0, total, total, tell):
        return scan_records(records, full, rows_max)


def _offsets(offsets: Offsets) -> str:
    return json.dumps(to_json(offsets))


def _facts(one: OffsetRange, start: int, seen: PartitionSummary | None, policy: str | None) -> PartitionAudit:
    start = min(max(start, one.start), one.end)
    row = PartitionAudit(one.topic, one.partition, start, one.end, deleted=start, policy=policy)
    if seen is None:
        return row
    return replace(
        row,
        records=seen.records,
        first=seen.first,
        last=seen.last,
        keys=seen.key_count,
        keyless=seen.keyless,
        tombstones=seen.tombstones,
        key_bytes=seen.key_bytes,
        value_bytes=seen.value_bytes,
        largest=seen.largest[0],
        largest_offset=seen.largest[1],
        timeless=seen.timeless,
        first_ms=seen.least_ms,
        last_ms=seen.most_ms,
        backward=seen.backward,
        backward_ms=seen.backward_ms,
        cells=tuple(seen.cells),
        times=seen.times,
    )


def _missing(row: PartitionAudit, seen: PartitionSummary | None) -> tuple[Ranges, int, int]:
    """Return the ranges of [log start, log end) without records, their number, and their offsets.

    Only the first ranges are listed.
    """
    if seen is None:
        return ([(row.start, row.end)], 1, row.end - row.start) if row.end > row.start else ([], 0, 0)
    first, last = max(seen.first, row.start), seen.last + 1
    head = [(row.start, first)] if first > row.start else []
    tail = [(last, row.end)] if row.end > last else []
    inside = [(max(begin, row.start), end) for begin, end in seen.gaps if end > row.start]
    count = len(head) + seen.gap_count + len(tail)
    return [*head, *inside, *tail], count, sum(end - begin for begin, end in (*head, *tail)) + seen.missing


def _explained(
    row: PartitionAudit,
    one: OffsetRange,
    seen: PartitionSummary | None,
    options: SourceOptions,
    reader: RecordReader,
    why: CompactionState,
    stable: int,
) -> PartitionAudit:
    """Args: stable: the last stable offset, before which all transactions have ended."""
    ranges, count, missing = _missing(row, seen)
    if not missing and stable >= row.end:
        return row
    gap = min((first for first, _ in ranges), default=stable)
    begin = gap_explanation.scan_start(reader, one.topic_partition, row.start, gap, stable)
    spans = gap_explanation.batch_spans(reader, options, one.topic_partition, begin, row.end)
    report = gap_explanation.find_gaps(spans, begin, row.end, ranges)
    is_compacted = why.may_have_removed(one.topic_partition)
    explained = gap_explanation.explain_gaps(ranges, report, is_compacted=is_compacted)
    between = min(report.between, missing)
    markers = min(report.markers, missing - between)
    has_transactions = bool(report.markers or report.open)
    return replace(
        row,
        markers=markers,
        compacted=missing - markers - (0 if is_compacted else between),
        missing=0 if is_compacted else between,
        gaps=tuple(explained[:GAPS_NAMED]),
        gap_count=count,
        holes=tuple(explained),
        aborted=report.aborted if has_transactions else None,
        open=report.open if has_transactions else None,
    )


def _with_repeated(row: PartitionAudit, repeated: DuplicateRecords | None) -> PartitionAudit:
    if repeated is None:
        return row
    return replace(row, repeated=repeated.rows, example=(repeated.first, repeated.again))
