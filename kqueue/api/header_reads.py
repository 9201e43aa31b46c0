"""Reads the batch headers for a ShareFetch in jobs, where they are on the disk only."""

from __future__ import annotations

from functools import partial

from kqueue.base.errors import KqueueError, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.broker.purgatory import Purgatory
from kqueue.broker.share.share_headers import ReadHeaders, read_headers
from kqueue.share.sessions import SessionPartition
from kqueue.storage import Region


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
