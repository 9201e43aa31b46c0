"""Reads of the tier for clients: bounded in number, and kept for the fetch that comes next.

A fetch asks `find` for what was read from its offset on, and `start`s a read where there is none.
Whether it still waits when the read ends does not matter: the result is kept for some seconds, for
its next try. So a store that is slower than `remote.fetch.max.wait.ms` slows a consumer down, but
does not stop it, and for `ERROR_KEPT_MS` an error answers all that ask without another request.
Source: Kafka's RemoteLogReader, DelayedRemoteFetch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from kqueue.base import events
from kqueue.base.errors import CorruptBatch, KqueueError, OffsetOutOfRange, StorageUnavailable
from kqueue.base.rate_limiter import RateLimiter
from kqueue.base.settings import MiB
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.tier.partition_tier import PartitionTier
from kqueue.broker.tier.tier_host import TierHost
from kqueue.broker.tier_config import FETCH_RATE, FETCH_WAIT_MS, READER_QUEUE
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.results import TieredReadResult, TimestampAndOffset
from kqueue.records.batch import iter_batches
from kqueue.storage.region import BytesSource, Region
from kqueue.tier.errors import ObjectNotFound, TierCorrupt
from kqueue.tier.lineage import Lineage
from kqueue.tier.manifest import Manifest
from kqueue.tier.reader import TierRead, TierReader

T = TypeVar("T")
logger = logging.getLogger("kqueue.broker")
READ_BYTES_MAX = 8 * MiB
"""Bytes of one read, but for a first batch that is larger. All readers, and what waits for them,
take so much memory each.
"""
KEPT_MS = 30_000
KEPT_BYTES_MAX = 64 * MiB
ERROR_KEPT_MS = 500


class ReadKey(NamedTuple):
    """Where a fetch reads."""

    partition: Partition
    offset: int
    read_committed: bool


class _Read:
    """A read under way, or its result. ended_ms: None while it is under way."""

    __slots__ = ("ended_ms", "error", "result")

    def __init__(self) -> None:
        self.ended_ms: float | None = None
        self.error: KqueueError | None = None
        self.result: TierRead | None = None

    @property
    def size(self) -> int:
        return 0 if self.result is None else len(self.result.records)

    def is_over(self, now_ms: float) -> bool:
        """Whether its result is not to be used any more."""
        kept_ms = ERROR_KEPT_MS if self.error is not None else KEPT_MS
        return self.ended_ms is not None and now_ms - self.ended_ms >= kept_ms


class TierReads:
    """The reads of one broker; implements `partition_host.TierReads`. Thread: owner thread.

    Attributes: requests, read_bytes, errors: since the start. pool: of the jobs.
    """

    def __init__(self, host: TierHost) -> None:
        config = host.config
        self.pool = host.reads
        self.requests = self.read_bytes = self.errors = 0
        self._host = host
        self._config = config
        self._clock = host.clock
        self._purgatory = host.purgatory
        self._reader = host.reader
        self._state_of = host.state_of
        self._reads: dict[ReadKey, _Read] = {}  # ended ones in the order of their ends, first
        self._kept_bytes = 0
        self._rate = RateLimiter(config[FETCH_RATE], host.clock)
        config.observe([FETCH_RATE], lambda: self._rate.configure(config[FETCH_RATE]))

    @property
    def wait_ms(self) -> int:
        """See `partition_host.TierReads`."""
        wait_ms: int = self._config[FETCH_WAIT_MS]
        return wait_ms

    def find(
        self, partition: Partition, offset: int, max_bytes: int, *, read_committed: bool, min_one_batch: bool
    ) -> TieredReadResult | None:
        """See `partition_host.TierReads`."""
        key = ReadKey(partition, offset, read_committed)
        read = self._reads.get(key)
        if read is None or read.ended_ms is None:
            return None
        if read.is_over(self._clock.monotonic_ms()):
            self._drop(key)
            return None
        if read.error is not None:
            raise read.error
        assert read.result is not None
        return self._within(partition, offset, read.result, max_bytes, min_one_batch=min_one_batch)

    def _within(
        self, partition: Partition, offset: int, read: TierRead, max_bytes: int, *, min_one_batch: bool
    ) -> TieredReadResult:
        records, next_offset = read.records, read.next_offset
        if len(records) > max_bytes:
            size, next_offset = _whole_batches(records, offset, max_bytes, min_one_batch=min_one_batch)
            records = records[:size]
        aborted: list[AbortedTxn] = read.aborted
        if read.continues_local and records:
            here = partition.log.reader.aborted(offset, next_offset)
            aborted = [*aborted, *(each for each in here if each not in aborted)]
        region = Region(BytesSource(records), 0, len(records)) if records else None
        return TieredReadResult(region, next_offset, aborted)

    def start(self, partition: Partition, offset: int, max_bytes: int, *, read_committed: bool) -> None:
        """See `partition_host.TierReads`. Nothing begins while too many reads wait, or above the
        rate: the client asks again.
        """
        key = ReadKey(partition, offset, read_committed)
        now_ms = self._clock.monotonic_ms()
        known = self._reads.get(key)
        if known is not None and not known.is_over(now_ms):
            return
        if self.pool.waiting >= self._config[READER_QUEUE] or self._rate.debt_ms() > 0:
            return
        state, end_offset = self._state_of(partition), partition.log.local_start_offset
        lineage = _lineage(partition)
        size = min(max(max_bytes, 1), READ_BYTES_MAX)
        self._drop(key)
        read = self._reads[key] = _Read()
        self.requests += 1

        def run() -> TierRead:
            return _read(self._reader, state.view, lineage, offset, size, end_offset, read_committed=read_committed)

        def finish(result: TierRead | None, error: BaseException | None) -> None:
            is_lost = _is_tiered(partition, offset) and offset >= state.view.root.log_start_offset
            if isinstance(error, OffsetOutOfRange) and is_lost:
                error = TierCorrupt(f"{partition!r}: offset {offset} is neither here nor in the tier: {error}")
            read.result, read.error, read.ended_ms = result, self._known(state, error), self._clock.monotonic_ms()
            if result is not None:
                state.logged = ""
                self._count(len(result.records))
            if self._reads.get(key) is read:
                self._reads[key] = self._reads.pop(key)
                self._kept_bytes += read.size
                self._evict(read.ended_ms)
            self._purgatory.wake(partition)

        self.pool.submit(f"read {state.view.partition} from the tier", run, finish)

    def find_time(
        self,
        partition: Partition,
        timestamp: int,
        end_offset: int,
        done: Callable[[TimestampAndOffset | KqueueError | None], None],
    ) -> None:
        """See `partition_host.TierReads`."""
        state, start_offset = self._state_of(partition), partition.log.start_offset
        reader, lineage = self._reader, _lineage(partition)

        def run() -> TimestampAndOffset | None:
            return _fresh(
                state.view, lineage, lambda part: reader.offset_for_time(part, timestamp, start_offset, end_offset)
            )

        def finish(result: TimestampAndOffset | None, error: BaseException | None) -> None:
            done(result if error is None else self._known(state, error))

        self.pool.submit(f"find a time of {state.view.partition} in the tier", run, finish)

    def forget(self, partition: Partition) -> None:
        """Drop what was read of a partition."""
        for key in [key for key in self._reads if key.partition is partition]:
            self._drop(key)

    def expire(self) -> None:
        """Drop what nobody has asked for in time."""
        self._evict(self._clock.monotonic_ms())

    def _known(self, state: PartitionTier, error: BaseException | None) -> KqueueError | None:
        """Return the error for clients; log it."""
        if error is None or isinstance(error, OffsetOutOfRange):
            return error
        self.errors += 1
        if self._host.is_news(state, error):
            events.TIER_READ_FAILED.log(
                logger,
                "%s-%d: the tier can't be read: %s",
                topic=state.partition.topic,
                partition=state.partition.index,
                error=error,
                exc_info=None if isinstance(error, KqueueError) else error,
            )
        if isinstance(error, KqueueError):
            return error.with_traceback(None)
        return StorageUnavailable(f"{state.view.partition}: the tier can't be read: {type(error).__name__}")

    def _count(self, size: int) -> None:
        self.read_bytes += size
        if size:
            self._rate.count(size)

    def _evict(self, now_ms: float) -> None:
        for key, read in list(self._reads.items()):
            if read.ended_ms is None:
                continue
            if not read.is_over(now_ms) and self._kept_bytes <= KEPT_BYTES_MAX:
                return
            if self._kept_bytes == read.size and not read.is_over(now_ms):
                return  # the only one: its fetch could not get it otherwise
            self._drop(key)

    def _drop(self, key: ReadKey) -> None:
        read = self._reads.pop(key, None)
        if read is not None:
            self._kept_bytes -= read.size


def _is_tiered(partition: Partition, offset: int) -> bool:
    """Whether the tier must have the records at `offset`: the log has it, and the disk has not."""
    return partition.is_open and partition.log.start_offset <= offset < partition.log.local_start_offset


def _lineage(partition: Partition) -> Lineage:
    """Return the leader epochs of the log here.

    Until the leader of an unclean election has claimed the manifest, and for good where that is
    refused, the tier may have others' records at offsets of this log.
    """
    log = partition.log
    return Lineage(log.epochs.entries(), partition.leader_epoch, log.end_offset)


def _read(
    reader: TierReader,
    view: Manifest,
    lineage: Lineage,
    offset: int,
    max_bytes: int,
    end_offset: int,
    *,
    read_committed: bool,
) -> TierRead:
    """Read whole batches; the manifest is read again where it is older than what it is asked for.
    Blocks.
    """

    def read_part(part: Manifest) -> TierRead:
        start = offset
        while True:
            read = reader.read(part, start, max_bytes, end_offset=end_offset, read_committed=read_committed)
            if read.records or not start < read.next_offset < min(end_offset, part.end_offset):
                return read
            start = read.next_offset  # no batch has the offsets in between

    return _fresh(view, lineage, read_part, stale=offset >= view.end_offset)


def _fresh(view: Manifest, lineage: Lineage, read: Callable[[Manifest], T], *, stale: bool = False) -> T:
    """Return what `read` returns for the part of the manifest that agrees with `lineage`; read the
    manifest again before, where it was never read or is `stale`, and again where a segment that it
    names is not there any more.
    """
    if stale or not view.root.sequence:
        view.refresh()
    try:
        return read(view.agreeing(lineage))
    except (ObjectNotFound, OffsetOutOfRange):
        view.refresh()  # the leader has deleted segments since, or copied others
        return read(view.agreeing(lineage))


def _whole_batches(records: bytes, offset: int, max_bytes: int, *, min_one_batch: bool) -> tuple[int, int]:
    """Return the size of the first batches within `max_bytes`, and the offset behind them."""
    end, next_offset = 0, offset
    try:
        for position, header in iter_batches(records):
            if position + header.size > max_bytes and not (min_one_batch and not position):
                break
            end, next_offset = position + header.size, header.last_offset + 1
    except CorruptBatch:  # of an old format: these are read in one piece
        return len(records), offset
    return end, next_offset
