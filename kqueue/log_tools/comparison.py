"""Compares the logs that several brokers have of the same partitions.

Two replicas must be equal below the lower of their high watermarks. Above it their ends may differ:
the next leader decides which one is truncated. But two batches at one offset that bear the same
leader epoch came from one leader, so they must be equal there too.

Compaction goes on at each broker at a time of its own. Of compacted partitions the newest committed
value of each key is compared, and each record that both logs have.

Nothing is written. Checkpoints of a running broker are older than its logs, so less is certain of
them. Source: `docs/internals/replication.md`, invariants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kqueue.base.errors import CorruptBatch
from kqueue.base.names import parse_partition_folder
from kqueue.log.formats.checkpoints import HIGH_WATERMARKS
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.folder import LogFolder
from kqueue.log_tools.progress import ProgressCallback, ProgressMeter
from kqueue.log_tools.segments import Batch
from kqueue.log_tools.transaction_outcomes import TransactionOutcomes
from kqueue.log_tools.verify import VerificationTarget, resolve_target
from kqueue.log_tools.verify.data_folder import CLEANED_TO, DataFolderState, Key, read_data_folder
from kqueue.log_tools.verify.report import VerificationReport
from kqueue.records.batch import BatchHeader
from kqueue.records.record import Record


class Difference(NamedTuple):
    """The first difference of two logs.

    `offset`: None: not at an offset. `folders`: of the two logs. `found`: what each of them has.
    """

    offset: int | None
    folders: tuple[str, str]
    found: tuple[str, str]

    def __str__(self) -> str:
        place = "" if self.offset is None else f"offset {self.offset}: "
        (first, second), (one, other) = self.folders, self.found
        return f"{place}{one} in {first}, {other} in {second}"


@dataclass(slots=True)
class PartitionComparison:
    """The comparison of one partition.

    Attributes:
        ends: end offset of each log, by data folder.
        high_watermark: the highest that a checkpoint has, at most the end of its log.
        equal_to: all logs are equal below it.
        is_compacted: compared by keys.
        difference: the first that must not be; None: there is none.
    """

    topic: str
    partition: int
    ends: dict[str, int] = field(default_factory=dict)
    high_watermark: int = 0
    equal_to: int = 0
    is_compacted: bool = False
    difference: Difference | None = None

    @property
    def name(self) -> str:
        """Topic and partition."""
        return f"{self.topic}-{self.partition}"

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        difference = self.difference
        return {
            "topic": self.topic,
            "partition": self.partition,
            "ends": self.ends,
            "high_watermark": self.high_watermark,
            "equal_to": self.equal_to,
            "compacted": self.is_compacted,
            "difference": None
            if difference is None
            else {
                "offset": difference.offset,
                "found": dict(zip(difference.folders, difference.found, strict=True)),
            },
        }


@dataclass(slots=True)
class ComparisonReport:
    """The comparison of all partitions of `folders`, by topic and partition."""

    folders: list[str]
    partitions: list[PartitionComparison] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether no partition differs where it must not."""
        return not self.different

    @property
    def different(self) -> list[PartitionComparison]:
        """The partitions that differ."""
        return [one for one in self.partitions if one.difference is not None]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "folders": self.folders,
            "equal": self.is_equal,
            "partitions": [one.as_json() for one in self.partitions],
        }


class _Replica(NamedTuple):
    """A log, and what the checkpoints beside it say. `end`: of the log."""

    folder: str
    log: LogFolder
    end: int
    checkpointed: int
    is_cleaned: bool

    @property
    def high_watermark(self) -> int:
        return min(self.checkpointed, self.end)


def compare(
    paths: Sequence[str | Path], *, allow_gaps: bool = False, progress: ProgressCallback | None = None
) -> ComparisonReport:
    """Compare data folders, partition by partition; or folders of one partition with each other.

    Args:
        paths: two or more.
        allow_gaps: all partitions are compacted, although no checkpoint says so.
        progress: receives the bytes that are done, and their total.
    Returns: the report; partitions that only one folder has are in it, and equal.
    Raises:
        NotALogFolder: there are no logs.
        StorageFailed: a folder can't be read.
        ValueError: fewer than two paths, or data folders beside folders of partitions.
    """
    targets = [resolve_target(path) for path in paths]
    if len(targets) < 2:
        raise ValueError("name two folders or more to compare")
    if len({target.partition is None for target in targets}) > 1:
        raise ValueError("name either data folders or folders of one partition, not both")
    report = ComparisonReport([target.location for target in targets])
    replicas: dict[Key, list[_Replica]] = {}
    for target in targets:
        for key, replica in _replicas_of(target, allow_gaps):
            replicas.setdefault(key, []).append(replica)
    if targets[0].partition is not None:
        replicas = {min(replicas): [one for group in replicas.values() for one in group]}
    meter = ProgressMeter(progress, sum(one.log.size for group in replicas.values() for one in group))
    report.partitions = [_compared(key, group, meter) for key, group in sorted(replicas.items())]
    meter.finish()
    return report


def _replicas_of(target: VerificationTarget, allow_gaps: bool) -> Iterator[tuple[Key, _Replica]]:
    state = read_data_folder(target.storage, VerificationReport(""))
    if target.partition is None:
        chosen = state.partitions
    else:
        chosen = {parse_partition_folder(target.partition) or (target.partition, 0): target.partition}
    for key, name in chosen.items():
        try:
            log = LogFolder(target.storage, name)
            end = log.end_offset
        except (NotALogFolder, FileNotFoundError):
            if target.partition is not None:
                raise
            continue  # made or deleted at the moment
        yield key, _Replica(target.location, log, end, *_checkpointed(state, key, allow_gaps))


def _checkpointed(state: DataFolderState, key: Key, allow_gaps: bool) -> tuple[int, bool]:
    return (
        state.offsets.get(HIGH_WATERMARKS, {}).get(key, 0),
        allow_gaps or key in state.offsets.get(CLEANED_TO, {}),
    )


def _compared(key: Key, replicas: list[_Replica], meter: ProgressMeter) -> PartitionComparison:
    result = PartitionComparison(*key, ends={one.folder: one.end for one in replicas})
    first = max(replicas, key=lambda one: (one.high_watermark, one.end))
    result.high_watermark, result.equal_to = first.high_watermark, first.end
    result.is_compacted = any(one.is_cleaned for one in replicas)
    result.difference = _lost(replicas)
    for other in replicas:
        if other is first:
            continue
        meter.add(first.log.size // len(replicas) + other.log.size)
        try:
            equal_to, difference = _pair(first, other, by_keys=result.is_compacted)
        except CorruptBatch as error:
            equal_to, difference = 0, Difference(None, (first.folder, other.folder), (f"damage ({error})", "a log"))
        result.equal_to = min(result.equal_to, equal_to)
        result.difference = result.difference or difference
    return result


def _lost(replicas: list[_Replica]) -> Difference | None:
    """Return whether committed records are in no log."""
    longest = max(replicas, key=lambda one: one.end)
    highest = max(replicas, key=lambda one: one.checkpointed)
    if highest.checkpointed <= longest.end:
        return None
    watermark = f"the high watermark {highest.checkpointed}"
    return Difference(longest.end, (highest.folder, longest.folder), (watermark, "the end of the longest log"))


def _pair(first: _Replica, other: _Replica, *, by_keys: bool) -> tuple[int, Difference | None]:
    """Compare a log with one of no higher high watermark. Returns: up to where they are equal, and
    the first difference.
    """
    folders = first.folder, other.folder
    ids = first.log.topic_id, other.log.topic_id
    if None not in ids and ids[0] != ids[1]:
        return 0, Difference(None, folders, (f"topic id {ids[0].hex()}", f"{ids[1].hex()}"))  # type: ignore[union-attr]
    begin = max(first.log.start_offset, other.log.start_offset)
    if begin > min(first.end, other.end):
        return begin, None  # one has deleted all that the other has
    compare_logs = _by_keys if by_keys else _by_batches
    equal_to, contents = compare_logs(first.log, other.log, begin, other.high_watermark)
    return equal_to, None if contents is None else Difference(equal_to, folders, contents)


Found = tuple[str, str] | None
"""The content of each of two logs where they must be equal."""


def _by_batches(first: LogFolder, other: LogFolder, begin: int, committed: int) -> tuple[int, Found]:
    ours, theirs = first.batches(start_offset=begin), other.batches(start_offset=begin)
    equal_to = begin
    while True:
        one, two = next(ours, None), next(theirs, None)
        if one is None or two is None:
            return equal_to, None if equal_to >= committed else (_told(one), _told(two))
        if not _same(one, two):
            equal_to = max(equal_to, min(one.base_offset, two.base_offset))
            must = equal_to < committed or (one.base_offset == two.base_offset and _epoch(one) == _epoch(two) >= 0)
            return equal_to, _unlike(one, two) if must else None
        equal_to = one.next_offset


def _same(one: Batch, two: Batch) -> bool:
    return one.base_offset == two.base_offset and one.size == two.size and bytes(one.data()) == bytes(two.data())


def _epoch(batch: Batch) -> int:
    return batch.unit.leader_epoch if isinstance(batch.unit, BatchHeader) else -1


def _told(batch: Batch | None) -> str:
    if batch is None:
        return "the end of the log"
    return f"a batch to offset {batch.last_offset} of leader epoch {_epoch(batch)}"


def _unlike(one: Batch, two: Batch) -> tuple[str, str]:
    """Return what differs between two batches."""
    told = _told(one), _told(two)
    if one.base_offset != two.base_offset:
        return f"a batch from offset {one.base_offset}", f"one from offset {two.base_offset}"
    if told[0] != told[1]:
        return told
    if isinstance(one.unit, BatchHeader) and isinstance(two.unit, BatchHeader):
        for name in ("producer_id", "producer_epoch", "base_sequence", "max_timestamp", "attributes"):
            values = getattr(one.unit, name), getattr(two.unit, name)
            if values[0] != values[1]:
                return f"{name} {values[0]}", f"{name} {values[1]}"
    for left, right in zip(one.records(), two.records(), strict=False):
        if left != right:
            return _record(left), _record(right)
    return f"{one.size} bytes with checksum {one.unit.crc:08x}", f"{two.size} bytes with {two.unit.crc:08x}"


def _record(record: Record) -> str:
    return f"a record of offset {record.offset} with key {_cut(record.key)} and value {_cut(record.value)}"


def _cut(data: bytes | memoryview | None) -> str:
    return "null" if data is None else repr(bytes(data[:40]))


def _by_keys(first: LogFolder, other: LogFolder, begin: int, committed: int) -> tuple[int, Found]:
    """Compare compacted logs below `committed`; open transactions are left out."""
    end = min(committed, _stable_end(first), _stable_end(other))
    if end <= begin:
        return begin, None
    newest: tuple[dict[bytes, Record], dict[bytes, Record]] = ({}, {})
    logs = [log.records(start_offset=begin, end_offset=end, isolation="read_committed") for log in (first, other)]
    left, right = next(logs[0], None), next(logs[1], None)
    while left is not None or right is not None:
        if left is not None and right is not None and left.offset == right.offset and left != right:
            return left.offset, (_record(left), _record(right))
        at = min(one.offset for one in (left, right) if one is not None)
        if left is not None and left.offset == at:
            newest[0][bytes(left.key or b"")] = left
            left = next(logs[0], None)
        if right is not None and right.offset == at:
            newest[1][bytes(right.key or b"")] = right
            right = next(logs[1], None)
    for key in newest[0].keys() | newest[1].keys():
        one, two = newest[0].get(key), newest[1].get(key)
        kept = [None if record is None or record.value is None else record for record in (one, two)]
        if kept[0] != kept[1]:  # tombstones are deleted in the end
            at = min(record.offset for record in (one, two) if record is not None)
            return at, tuple(_newest(key, record) for record in (one, two))  # type: ignore[return-value]
    return end, None


def _newest(key: bytes, record: Record | None) -> str:
    return f"no value of key {_cut(key)}" if record is None else _record(record)


def _stable_end(log: LogFolder) -> int:
    open_from = TransactionOutcomes(log.batches(check=False)).first_unstable_offset
    return log.end_offset if open_from is None else open_from
