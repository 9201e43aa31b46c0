"""Reads the batches of a sealed segment in order, each checked against its checksum."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kqueue.base.errors import CorruptBatch
from kqueue.log.compaction.throttle import Throttle
from kqueue.log.scanner.batch_scanner import BatchScanner, CheckLevel, Readable, ScannedBatch, first_offset

BulkRead = Callable[[bytes, int, int, int], tuple[int, int]]
"""`bulk(buf, at, limit, next_offset)` may consume whole batches from `buf[at]` on, not beyond
`limit`, where the file ends. It returns the bytes that it consumed, 0: none, and the next offset.
"""


class SegmentReader:
    """Iterates over all batches of a log file; their offsets rise and stay within the segment.

    Args:
        path: names the file in messages.
        size: bytes of the file.
        base_offset, end_offset: of the segment; `end_offset` is exclusive.
        bulk: consumes many small batches at once; those are not yielded.

    position: of the batch that is read. Raises, while iterating: CorruptBatch: a checksum, magic or
    length is wrong, the offsets do not rise or leave the segment, or the file does not end with a
    batch. The message lacks the position: see `located`. StorageFailed, FileNotFoundError.
    """

    def __init__(
        self,
        file: Readable,
        path: str,
        size: int,
        base_offset: int,
        end_offset: int,
        chunk_bytes: int,
        throttle: Throttle,
        bulk: BulkRead | None = None,
    ) -> None:
        self.path = path
        self._next_offset = base_offset
        self._end_offset = end_offset
        self._bulk = bulk
        self._scanner = BatchScanner(
            _ThrottledFile(file, throttle),
            0,
            size,
            check=CheckLevel.CHECKSUMS,
            chunk_bytes=chunk_bytes,
            bulk=None if bulk is None else self._read_bulk,
        )

    @property
    def position(self) -> int:
        """Position of the batch that is read, in bytes."""
        return self._scanner.position

    def __iter__(self) -> Iterator[ScannedBatch]:
        for batch in self._scanner:
            header = batch.header
            if first_offset(header) < self._next_offset:
                raise CorruptBatch(f"offsets have to rise: {first_offset(header)} follows {self._next_offset - 1}")
            self._advance(header.last_offset + 1)
            yield batch
        if self._scanner.stop is not None:
            raise CorruptBatch(str(self._scanner.stop.fault))

    def _read_bulk(self, buf: bytes, at: int, limit: int) -> int:
        assert self._bulk is not None
        size, next_offset = self._bulk(buf, at, limit, self._next_offset)
        self._advance(next_offset)
        return size

    def _advance(self, next_offset: int) -> None:
        # no checksum covers offsets
        if next_offset > self._end_offset:
            raise CorruptBatch(f"offset {next_offset - 1} lies beyond the end of its segment at {self._end_offset}")
        self._next_offset = next_offset

    def located(self, error: CorruptBatch) -> CorruptBatch:
        """Return the same error with the file and the position of the batch that is read."""
        return CorruptBatch(f"{self.path}, batch at position {self.position}: {error}")


class _ThrottledFile:
    """Counts each byte of a file once against the throttle, even if it is read twice."""

    __slots__ = ("_end", "_file", "_throttle")

    def __init__(self, file: Readable, throttle: Throttle) -> None:
        self._file = file
        self._throttle = throttle
        self._end = 0

    def read_at(self, position: int, size: int) -> bytes:
        data = self._file.read_at(position, size)
        end = position + len(data)
        if end > self._end:
            self._throttle.spend(end - self._end)
            self._end = end
        return data
