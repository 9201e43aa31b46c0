"""Records of a running broker, read in portions on its own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kqueue.base.errors import CorruptBatch, KqueueError, OffsetMovedToTieredStorage
from kqueue.broker.purgatory import DelayedOperation
from kqueue.embedded.inspection.broker_calls import RunOnBroker, appended_visible
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.results import ReadResult, TieredReadResult
from kqueue.log_tools.segments import Batch, InvalidBytes, walk
from kqueue.records.batch import BatchHeader
from kqueue.storage.memory import MemoryFile

if TYPE_CHECKING:
    from kqueue.app import Server
    from kqueue.broker.replicas.partition import Partition
    from kqueue.broker.replicas.partition_host import PartitionRead

PORTION_BYTES = 1024 * 1024
SHOWN_BYTES = 60
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """One record of a topic.

    `timestamp`: ms since 1970; None: it has none. `key`, `value`: None is null. `headers`: in
    order.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    def __repr__(self) -> str:
        key = "" if self.key is None else f" key={shown(self.key)}"
        headers = f" headers={dict(self.headers)!r}" if self.headers else ""
        return f"<{self.where}{key} value={shown(self.value)}{headers}>"

    @property
    def where(self) -> str:
        """Topic, partition and offset: ``orders-0@17``."""
        return f"{self.topic}-{self.partition}@{self.offset}"


def shown(value: object) -> str:
    """Return the text of a value, shortened where it is long."""
    text = repr(value)
    if len(text) <= SHOWN_BYTES:
        return text
    size = f" ({len(value)} bytes)" if isinstance(value, bytes) else ""
    return f"{text[:SHOWN_BYTES]}...{size}"


class FetchedBatches(NamedTuple):
    """Encoded batches of a partition. `next_offset`: where the next read begins. `aborted`:
    transactions to leave out.
    """

    data: bytes
    next_offset: int
    aborted: Sequence[AbortedTxn]
    limit_bytes: int


class OffsetRange(NamedTuple):
    """The readable offsets of a partition: from `start` to `end` (exclusive)."""

    start: int
    end: int


def scan(
    ask: RunOnBroker, topic: str, index: int, start: int | None, stop: int | None, *, read_committed: bool
) -> Iterator[Record]:
    """Yield the records of one partition with offsets from `start` to `stop` (exclusive), up to the
    end that it has at the first step. That end includes all earlier appends: a pending flush is
    awaited.

    Memory: a portion of about 1 MiB, or one batch.
    Raises: UnknownTopicOrPartition, CorruptBatch, StorageFailed.
    """

    async def extent(server: Server) -> OffsetRange:
        partition = server.broker.topics.partition(topic, index)
        await appended_visible(server, [partition])
        end = partition.last_stable_offset if read_committed else partition.high_watermark
        return OffsetRange(partition.log_start_offset, end)

    bounds = ask(extent)
    offset = bounds.start if start is None else max(start, bounds.start)
    end = bounds.end if stop is None else min(stop, bounds.end)
    while offset < end:
        portion = _ask_portion(ask, topic, index, offset, read_committed=read_committed)
        if not portion.data:
            return
        yield from _records(topic, index, portion, offset, end)
        offset = portion.next_offset


def _ask_portion(ask: RunOnBroker, topic: str, index: int, offset: int, *, read_committed: bool) -> FetchedBatches:
    async def read(server: Server) -> FetchedBatches:
        partition = server.broker.topics.partition(topic, index)
        at = max(offset, partition.log_start_offset)  # retention may have deleted records meanwhile
        fetched = await _read_checked(server, partition, at, read_committed=read_committed)
        aborted: Sequence[AbortedTxn] = []
        if isinstance(fetched, TieredReadResult):
            aborted = fetched.aborted
        elif read_committed and fetched:
            aborted = partition.log.reader.aborted(at, fetched.next_offset)
        return FetchedBatches(
            fetched.read(), fetched.next_offset, aborted, server.config["kqueue.max.decompressed.bytes"]
        )

    return ask(read)


async def _read_checked(server: Server, partition: Partition, offset: int, *, read_committed: bool) -> ReadResult:
    """Read; verify checksums in a job unless they are verified already, as a Fetch does."""
    while True:
        try:
            fetched = partition.read(offset, PORTION_BYTES, read_committed=read_committed).fetched
        except OffsetMovedToTieredStorage:
            return await _read_tiered(server, partition, offset, read_committed=read_committed)
        if fetched.check is None:
            return fetched
        checked: asyncio.Future[KqueueError | None] = asyncio.get_running_loop().create_future()

        def done(error: KqueueError | None, checked: asyncio.Future[KqueueError | None] = checked) -> None:
            if not checked.done():
                checked.set_result(error)

        partition.start_check(fetched.check, done)
        error = await checked
        if error is not None:
            raise error


async def _read_tiered(server: Server, partition: Partition, offset: int, *, read_committed: bool) -> ReadResult:
    """Read from the tier, in a job."""

    def read(expired: bool = False) -> PartitionRead | None:
        return partition.tiered_read(offset, PORTION_BYTES, read_committed=read_committed, min_one_batch=True)

    known = read()
    if known is None:
        ended: asyncio.Future[PartitionRead] = asyncio.get_running_loop().create_future()
        server.broker.scheduler.purgatory.add(
            DelayedOperation((partition,), None, read), ended.set_result, ended.set_exception
        )
        partition.start_tiered_read(offset, PORTION_BYTES, read_committed=read_committed)
        known = await ended
    return known.fetched


def _records(topic: str, index: int, portion: FetchedBatches, start: int, end: int) -> Iterator[Record]:
    place = f"{topic}-{index}"
    for batch in walk(MemoryFile(portion.data), place, 0, len(portion.data), check=False):
        if isinstance(batch, InvalidBytes):
            raise CorruptBatch(f"{place} from offset {start} on: {batch.fault}")
        if batch.is_control or _is_aborted(batch, portion.aborted):
            continue
        for record in batch.records(limit_bytes=portion.limit_bytes):
            if start <= record.offset < end:
                timestamp = record.timestamp if record.timestamp >= 0 else None
                yield Record(topic, index, record.offset, timestamp, record.key, record.value, record.headers)


def _is_aborted(batch: Batch, aborted: Sequence[AbortedTxn]) -> bool:
    header = batch.unit
    if not isinstance(header, BatchHeader) or not header.is_transactional:
        return False
    return any(
        one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
        for one in aborted
    )
