"""What passes between those who have batches and the engines that make columns of them."""

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
    """How much makes a piece. `rows_max`: at least 1; `bytes_max`: about what it takes, the last
    row may go beyond; 1 GiB at most.

    `data_max`: bytes in one column of a piece, which only a single row may pass: Arrow's columns
    count with 32 bits. Raises ValueError: out of these ranges.
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
    """Which records are taken: offsets and times (ms) from the first bound on, and below the
    second; None: no bound.

    Records without a time are not taken where a bound of time is given. Raises ValueError: beyond
    64 bits.
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
        """Whether a record with this offset and time (ms) is one of them."""
        if (self.start_offset is not None and offset < self.start_offset) or (
            self.end_offset is not None and offset >= self.end_offset
        ):
            return False
        if self.since_ms is not None and timestamp < self.since_ms:
            return False
        return self.until_ms is None or 0 <= timestamp < self.until_ms


class BatchSpan(NamedTuple):
    """A batch of magic 2, whose records, not compressed, are `data[start:end]` of a buffer. `tag`:
    comes back in `ColumnChunk.runs`.
    """

    header: BatchHeader
    start: int
    end: int
    tag: Any


class ColumnChunk(NamedTuple):
    """Records as Arrow arrays of one length.

    offset int64; timestamp int64 (ms since 1970; negative: none); key and value binary, null where
    the record has none; headers list<struct<key: string, value: binary>>, never null, bytes in
    names that are no UTF-8 are replaced. `runs`: (how many rows, the tag of their batch), in order:
    what all rows of a batch share.
    """

    offset: pa.Array
    timestamp: pa.Array
    key: pa.Array
    value: pa.Array
    headers: pa.Array
    runs: list[tuple[int, Any]]

    @property
    def rows(self) -> int:
        return len(self.offset)


class CorruptBatchAt(CorruptBatch):
    """One of many batches has records that are none. `next_offset`: after what stands before it."""

    def __init__(self, pos: int, next_offset: int | None, why: CorruptBatch) -> None:
        super().__init__(f"the batch at position {pos}: {why}")
        self.next_offset = next_offset


class ChunkBuilder(Protocol):
    """Gathers records until they make a piece. One thread at a time."""

    @property
    def at(self) -> int:
        """Which of the spans that were last added is, or failed to be, read."""
        ...

    def add(self, data: Buffer, spans: Sequence[BatchSpan], bounds: RecordRange) -> Iterator[ColumnChunk]:
        """Take records; pieces come as they are full. To be run to its end before anything else is
        asked for.

        `data` is not kept after that. Raises: CorruptBatch: as `decode_records`, with the same
        words; the records before have been taken, and more may be added.
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
        """Take the small batches from `pos` on, as many as need no closer look, a control batch or
        a compressed one for instance.

        Args: transactional: take those of transactions too. check: compare checksums. next_offset:
        that at `pos`. `ColumnChunk.runs` has (tag, header). Returns: where it stopped, which may be
        `pos`, and the next offset there. Raises: CorruptBatchAt; the records before have been taken.
        """
        ...

    def add_records(self, records: Sequence[Record], tag: Any, bounds: RecordRange) -> Iterator[ColumnChunk]:
        """Take records that were decoded elsewhere, those of old formats."""
        ...

    def take(self) -> ColumnChunk | None:
        """What is left, None: nothing. The chunk_builder begins anew."""
        ...


def check_offsets(header: BatchHeader) -> None:
    """Raises CorruptBatch: the next offset is beyond 64 bits, which a column can't hold."""
    if header.last_offset >= LONG_MAX:
        raise CorruptBatch(
            f"offsets from {header.base_offset} on, {header.last_offset_delta + 1} of them, leave 64 bits"
        )
