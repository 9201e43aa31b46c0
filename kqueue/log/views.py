"""Read-only views of a log and its segments, as cleanup policies and their work see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class SegmentView(NamedTuple):
    """One segment of a log. Times in ms since 1970.

    end_offset: exclusive, the base offset of the next segment.
    size: bytes of batches.
    max_timestamp: greatest time of a record; -1: no record has one (format 0, or no records).
    is_active: batches are appended to it.
    time_ms: `max_timestamp`; where that is not above 0, the last write to the segment's file.
    first_timestamp: of the first batch; -1: none, or not read. It is read where the segment ends
        above `LogView.first_dirty` and the topic sets `max.compaction.lag.ms`.
    """

    base_offset: int
    end_offset: int
    size: int
    max_timestamp: int
    is_active: bool
    time_ms: int
    first_timestamp: int = -1


@dataclass(frozen=True, slots=True)
class LogView:
    """A log at one moment.

    segments: oldest first, never empty, the active one last.
    start_offset: records below can't be read any more.
    high_watermark: records at or above it may not be durable yet, and stay.
    stable_offset: first offset of an open transaction, or the high watermark.
    first_dirty: everything below was compacted before.
    """

    topic: str
    partition: int
    segments: tuple[SegmentView, ...]
    start_offset: int
    high_watermark: int
    stable_offset: int
    first_dirty: int

    @property
    def size(self) -> int:
        """Bytes of batches in all segments."""
        return sum(segment.size for segment in self.segments)
