"""Types that the decoder and its engines share: limits, ranges, batches, chunks of columns."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kqueue.base.errors import CorruptBatch
from kqueue.records.batch import BatchHeader
from kqueue.records.codecs import Buffer
from kqueue.records.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 65_536
BYTES_MAX = 8 * 1024 * 1024
BYTES_LIMIT = 2**30
DATA_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
LONG_MIN = -(2**63)


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """Limits of one chunk.

    Attributes:
        rows_max: at least 1.
        bytes_max: approximate memory, at most 1 GiB; the last row may exceed it.
        data_max: bytes in one column, because Arrow's offsets have 32 bits. Only a single row may
            exceed it.
    Raises: ValueError: a limit is out of range.
    """

    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX
    data_max: int = DATA_MAX

    def __post_init__(self) -> None:
        if not 1 <= self.rows_max <= DATA_MAX:
            raise ValueError(f"rows_max is from 1 to {DATA_MAX}, found {self.rows_max}")
        if not 1 <= self.bytes_max <= BYTES_LIMIT:
            raise ValueError(f"bytes_max is from 1 to {BYTES_LIMIT}, found {self.bytes_max}")


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Range of offsets and times (ms) of the records to decode; None: no bound.

    Starts are inclusive, ends exclusive. A bound on time excludes records without a time.
    Raises: ValueError: a bound exceeds 64 bits.
    """

    start_offset: int | None = None
    end_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def __post_init__(self) -> None:
        for bound in (self.start_offset, self.end_offset, self.since_ms, self.until_ms):
            if bound is not None and not LONG_MIN <= bound <= LONG_MAX:
                raise ValueError(f"a bound has 64 bits at most, found {bound}")

    def take(self, offset: int, timestamp: int) -> bool:
        """Return whether a record with this offset and time (ms) is in the range."""
        if (self.start_offset is not None and offset < self.start_offset) or (
            self.end_offset is not None and offset >= self.end_offset
        ):
            return False
        if self.since_ms is not None and timestamp < self.since_ms:
            return False
        return self.until_ms is None or 0 <= timestamp < self.until_ms


class BatchSpan(NamedTuple):
    """A batch of magic 2 whose uncompressed records are `data[start:end]`. `tag`: returned in
    `ColumnChunk.runs`.
    """

    header: BatchHeader
    start: int
    end: int
    tag: Any


class ColumnChunk(NamedTuple):
    """Records as Arrow arrays of one length.

    Attributes:
        offset: int64. timestamp: int64, ms since 1970, negative: none.
        key, value: binary; null: the record has none.
        headers: list<struct<key: string, value: binary>>, never null. Invalid UTF-8 in names is
            replaced.
        runs: (number of rows, tag of their batch), in order.
    """

    offset: pa.Array
    timestamp: pa.Array
    key: pa.Array
    value: pa.Array
    headers: pa.Array
    runs: list[tuple[int, Any]]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.offset)


class CorruptBatchAt(CorruptBatch):
    """One of several batches has invalid records. `next_offset`: after the batches before it."""

    def __init__(self, pos: int, next_offset: int | None, why: CorruptBatch) -> None:
        super().__init__(f"the batch at position {pos}: {why}")
        self.next_offset = next_offset


class ChunkBuilder(Protocol):
    """Collects records until they fill a chunk. Thread: one at a time."""

    @property
    def at(self) -> int:
        """Index of the span, of those last added, that is being read or failed."""
        ...

    def add(self, data: Buffer, spans: Sequence[BatchSpan], bounds: RecordRange) -> Iterator[ColumnChunk]:
        """Add the records of `spans`; yield each chunk when it is full.

        Run the iterator to its end before the next call. `data` is not kept after that.
        Raises: CorruptBatch: as `decode_records`, with the same words. The records before were
            added, and more may be added.
        """
        ...

    def add_small(
        self,
        data: Buffer,
        pos: int,
        bounds: RecordRange,
        tag: Any,
        *,
        transactional: bool,
        check: bool,
        next_offset: int | None,
    ) -> Generator[ColumnChunk, None, tuple[int, int | None]]:
        """Add small batches from `pos` on, up to one that needs other code (control, compressed).

        `ColumnChunk.runs` has (tag, header).
        Args:
            transactional: add batches of transactions too.
            check: compare checksums.
            next_offset: the offset at `pos`.
        Returns: the position where it stopped, possibly `pos`, and the next offset there.
        Raises: CorruptBatchAt: the records before were added.
        """
        ...

    def add_records(self, records: Sequence[Record], tag: Any, bounds: RecordRange) -> Iterator[ColumnChunk]:
        """Add decoded records, those of message sets."""
        ...

    def take(self) -> ColumnChunk | None:
        """Return the rest and reset the builder; None: there are no rows."""
        ...


def check_offsets(header: BatchHeader) -> None:
    """Raise CorruptBatch if the next offset exceeds 64 bits, which a column can't hold."""
    if header.last_offset >= LONG_MAX:
        raise CorruptBatch(f"{header.last_offset_delta + 1} offsets from {header.base_offset} on leave 64 bits")
