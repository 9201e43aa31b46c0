"""What goes into a compaction and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kqueue.log.compaction.offset_map import LOAD_FACTOR_DEFAULT
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, Record

RecordFilter = Callable[[Record], bool]
"""Whether a record stays; picklable where files are shared with worker processes, and the same
answer for the same record.
"""


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """A sealed segment. `end_offset`: exclusive, the base of the next segment; `size`: bytes of its
    log.

    `has_txnindex`: it must have an index of aborted transactions; one that is there is read in any
    case.
    """

    base: int
    end_offset: int
    size: int
    has_txnindex: bool = False


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """Settings of the log and of the cleaner; sizes in bytes, times in ms.

    `dedupe_bytes`: for the offset map of this one job; `load_factor`: the share of it that keys may
    take, above 0, up to 1. `io_bytes_per_second`: reads and writes of this one job together.
    `io_buffer_bytes`: how much is read at a time, and written.
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
    """A segment that compaction wrote. `size`: bytes of its log; `end_offset`: exclusive;
    `max_timestamp`: ms, -1 none.
    """

    base: int
    size: int
    end_offset: int
    max_timestamp: int
    has_txnindex: bool


@dataclass(frozen=True, slots=True)
class SegmentGroup:
    """Segments that one takes the place of. `sources`: (base, ...) of those, rising; the first is
    the base of `cleaned` too.
    """

    sources: tuple[int, ...]
    cleaned: CleanedSegment


@dataclass(slots=True)
class CleanerStats:
    """What one job did. Records are counted in the second pass, bytes in both, as they are in the
    log files.

    `map_entries`: keys in the offset map; `seconds`: pauses of the throttle included.
    """

    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    map_entries: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result. `groups`: in order of offset, to be committed and installed in this order, empty:
    nothing changes.

    `clean_to`: first dirty offset from now on; it lies below the end of the sources where the
    offset map was full before.
    """

    groups: tuple[SegmentGroup, ...]
    clean_to: int
    stats: CleanerStats
