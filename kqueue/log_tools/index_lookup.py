"""Start positions in a segment: the offset index is a hint that is verified against the log."""

from __future__ import annotations

from bisect import bisect_right

from kqueue.log.formats.filenames import INDEX
from kqueue.log.formats.offset_index import ENTRY
from kqueue.log_tools.segments import Batch, Segment
from kqueue.storage import File


def position_of(segment: Segment, offset: int | None) -> int:
    """Return the position of a batch at or before the one that holds `offset`.

    The index may be damaged, missing, or padded with zeros by a running broker: an entry is used
    only if a valid header at its position has the entry's offset.

    Args:
        offset: None: the last indexed batch.
    Returns: position in bytes; 0 if the index does not help.
    Raises: StorageFailed.
    """
    if offset is not None and offset <= segment.base_offset:
        return 0
    try:
        file = segment.storage.open(segment.path(INDEX))
    except FileNotFoundError:
        return 0
    try:
        count = _count(file)
        if offset is not None:
            relative = offset - segment.base_offset
            count = bisect_right(range(count), relative, key=lambda number: _entry(file, number)[0])
        if not count:
            return 0
        last, position = _entry(file, count - 1)
    finally:
        file.close()
    return position if 0 < position < segment.size and _agrees(segment, segment.base_offset + last, position) else 0


def log_end_of(segment: Segment) -> int:
    """Return the offset after the segment's last complete batch, the base offset if there is none.

    Reads from the last indexed batch on.
    """
    end = segment.base_offset
    for item in segment.walk(position_of(segment, None), check=False):
        if isinstance(item, Batch):
            end = max(end, item.next_offset)
    return end


def _count(file: File) -> int:
    """Return the number of entries before the zeros at the end."""
    return bisect_right(
        range(file.size // ENTRY.size), False, key=lambda number: number > 0 and _entry(file, number) == (0, 0)
    )


def _entry(file: File, number: int) -> tuple[int, int]:
    data = file.read_at(number * ENTRY.size, ENTRY.size)
    relative, position = ENTRY.unpack(data) if len(data) == ENTRY.size else (0, 0)
    return relative, position


def _agrees(segment: Segment, last_offset: int, position: int) -> bool:
    item = next(iter(segment.walk(position)), None)
    return isinstance(item, Batch) and item.is_valid and item.last_offset == last_offset
