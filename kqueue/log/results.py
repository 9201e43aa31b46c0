"""What a log answers."""

from __future__ import annotations

from typing import NamedTuple


class AppendResult(NamedTuple):
    """Where a batch went. `log_append_time_ms` -1 unless the topic stamps times; `next_offset` is
    the log's end after it.

    `duplicate`: the batch was there already (a producer repeated it), the offsets are those of the
    first time.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    next_offset: int


class SegmentInfo(NamedTuple):
    """What may be told of a segment: first offset, bytes of batches, greatest timestamp in ms (-1:
    none).
    """

    base: int
    size: int
    max_timestamp: int
