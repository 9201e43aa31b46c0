"""Headers of the batches that a ShareFetch has read: which offsets they have, without the records.

The pages of a log that was not read for a while are on the disk only. There `read_headers` says so
instead of waiting, and the caller repeats it in a job.
"""

from __future__ import annotations

from typing import NamedTuple

from kqueue.base.settings import KiB
from kqueue.records.batch import BATCH_OVERHEAD, BatchHeader, read_header
from kqueue.storage import Region

BATCHES_MAX = 1000
"""Headers of one partition that one pass reads, some 5 ms; the next pass goes on behind them."""
PAGE_BYTES = 4 * KiB
"""A page in memory has all of these bytes, or more of them where pages are larger."""


class ReadBatch(NamedTuple):
    """A batch of a region. `position`: in the region."""

    header: BatchHeader
    position: int


class ReadHeaders(NamedTuple):
    """The first batches of a region. `next_offset`: where the batches behind them begin, or
    below.
    """

    batches: list[ReadBatch]
    next_offset: int


def read_headers(region: Region, records_max: int, *, may_block: bool) -> ReadHeaders | None:
    """Return the first batch of `region` and those within `records_max` offsets behind it.

    None: the disk must be read for them, and `may_block` is False.

    Thread: any. Raises: StorageFailed, CorruptBatch.
    """
    batches: list[ReadBatch] = []
    position, cached_end, next_offset = 0, 0, 0
    while position < region.size and len(batches) < BATCHES_MAX:
        begin = region.position + position
        if not may_block and begin + BATCH_OVERHEAD > cached_end:
            if not region.source.is_cached(begin, BATCH_OVERHEAD):
                return None
            cached_end = -(-(begin + BATCH_OVERHEAD) // PAGE_BYTES) * PAGE_BYTES
        header = read_header(region.source.read_at(begin, BATCH_OVERHEAD))
        if batches and header.base_offset > batches[0].header.last_offset + records_max:
            break
        batches.append(ReadBatch(header, position))
        next_offset = header.next_offset
        position += header.size
    return ReadHeaders(batches, next_offset)
