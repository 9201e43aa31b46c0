"""Input and result of a compaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kqueue.log.compaction.offset_map import LOAD_FACTOR_DEFAULT
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, Record

RecordFilter = Callable[[Record], bool]
"""Whether a record stays; deterministic, and picklable if worker processes share the files."""


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """A sealed segment to compact.

    end_offset: exclusive, the base of the next segment. size: of its log, in bytes.
    has_txnindex: its index of aborted transactions must exist; an existing one is read in any case.
    """

    base: int
    end_offset: int
    size: int
    has_txnindex: bool = False


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """Settings of the log and the cleaner, for one job; sizes in bytes, times in ms.

    dedupe_bytes: memory of the offset map. load_factor: greatest share of it that keys use, above
    0, up to 1. io_bytes_per_second: reads and writes together. io_buffer_bytes: size of one read
    and of one write.
    """

    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    dedupe_bytes: int
    load_factor: float = LOAD_FACTOR_DEFAULT
    io_bytes_per_second: float = float("inf")
    io_buffer_bytes: int = 1 << 20
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """A segment that compaction wrote.

    size: of its log, in bytes. end_offset: exclusive. max_timestamp: in ms, -1: none.
    """

    base: int
    size: int
    end_offset: int
    max_timestamp: int
    has_txnindex: bool


@dataclass(frozen=True, slots=True)
class SegmentGroup:
    """Segments that one cleaned segment replaces.

    sources: their base offsets, rising; the first is the base of `cleaned` too.
    """

    sources: tuple[int, ...]
    cleaned: CleanedSegment


@dataclass(slots=True)
class CleanerStats:
    """Counters of one job. Records are counted in the second pass, bytes in both.

    map_entries: keys in the offset map. seconds: including pauses of the throttle.
    """

    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    map_entries: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """Result of a compaction.

    groups: in order of offset, to be committed and installed in this order; empty: nothing changes.
    clean_to: the new first dirty offset; below the end of the sources if the offset map was full.
    """

    groups: tuple[SegmentGroup, ...]
    clean_to: int
    stats: CleanerStats
