"""Headers of the batches that a ShareFetch has read: which offsets they have, without the records.

The pages of a log that was not read for a while are on the disk only. There `read_headers` says so
instead of waiting, and `HeaderReads` repeats it in a job.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from kqueue.base.errors import KqueueError, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.settings import KiB
from kqueue.broker.purgatory import Purgatory
from kqueue.records.batch import BATCH_OVERHEAD, BatchHeader, read_header
from kqueue.share.sessions import SessionPartition
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


class HeaderReads:
    """The jobs that one request waits for; their ends wake it by `key`.

    A job brings the pages into memory. The request then reads again, as other members may have
    acquired the records meanwhile. It does that once: if the pages are gone already it waits for
    the disk, which else it might do forever.
    """

    __slots__ = ("_jobs", "_purgatory", "_read", "failed", "running")

    def __init__(self, jobs: Jobs, purgatory: Purgatory) -> None:
        self._jobs = jobs
        self._purgatory = purgatory
        self._read: set[SessionPartition] = set()
        self.running: set[SessionPartition] = set()
        self.failed: dict[SessionPartition, KqueueError] = {}

    def read(self, partition: SessionPartition, region: Region, records_max: int, key: object) -> ReadHeaders | None:
        """Return the headers as `read_headers` does; None: a job reads them.

        Raises: CorruptBatch. StorageFailed: also of a former job.
        """
        if partition in self.failed:
            raise self.failed[partition]
        if partition in self.running:
            return None
        headers = read_headers(region, records_max, may_block=partition in self._read)
        if headers is None:
            self.running.add(partition)
            run = partial(read_headers, region, records_max, may_block=True)
            self._jobs.submit(
                IoJob("headers for a ShareFetch", run, partial(self._ended, partition, key), region.location)
            )
        return headers

    def _ended(
        self, partition: SessionPartition, key: object, headers: ReadHeaders | None, error: BaseException | None
    ) -> None:
        self.running.discard(partition)
        self._read.add(partition)
        if error is not None:
            self.failed[partition] = (
                error if isinstance(error, KqueueError) else StorageFailed(f"headers can't be read: {error!r}")
            )
        self._purgatory.wake(key)
