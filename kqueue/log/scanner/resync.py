"""Finds where batches begin again behind damaged bytes.

A candidate is judged by its form and its checksum alone. A record's value may hold the bytes of a
batch, so callers that have a valid index try its positions first.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from kqueue.base.errors import CorruptBatch
from kqueue.log.scanner.batch_scanner import (
    SIZE_MIN,
    AnyHeader,
    BatchScanner,
    CheckLevel,
    CorruptRange,
    Readable,
    ScannedBatch,
    ScanStop,
    first_offset,
    parse_batch,
    scan,
)
from kqueue.records.batch import BATCH_OVERHEAD, HEADER, MAGIC_POSITION, read_header, stated_size

CHUNK_BYTES = 1024 * 1024
BATCH_BYTES_MAX = 128 * 1024 * 1024  # a larger length counts as wrong
WORK_FACTOR = 4  # limits the bytes of which checksums are computed, in multiples of the bytes searched
WORK_BYTES_MIN = 64 * 1024 * 1024
OFFSETS_MAX = 2**31  # a segment spans fewer
_START_BYTES = MAGIC_POSITION + 1


def next_batch(file: Readable, position: int, end: int, *, after_offset: int) -> int | None:
    """Return the position of the next whole batch with a right checksum; None: there is none.

    Args:
        position, end: bytes of the file to search; the batch lies between them.
        after_offset: all its offsets are greater, and by less than 2**31, as in one segment.
    Returns: None also if so many bytes look like a batch that checking them all would exceed the
        work limit, a small multiple of the bytes searched.
    Raises StorageFailed. Reads a chunk at a time, or one batch.
    """
    return _Search(file, position, end, after_offset).run()


def batch_at(file: Readable, position: int, end: int) -> AnyHeader | None:
    """The header of the whole batch with a right checksum that begins at `position`, None: none.

    Raises StorageFailed.
    """
    end = min(end, position + BATCH_BYTES_MAX)
    scanner = BatchScanner(file, position, end, check=CheckLevel.CHECKSUMS, chunk_bytes=BATCH_OVERHEAD)
    return next((batch.header for batch in scanner), None)


def scan_resyncing(
    scanner: BatchScanner, last_offset: int, *, last_max: int, limit: int | None
) -> Iterator[ScannedBatch | CorruptRange]:
    """Yield all bytes of the scanner's range, as valid batches and the ranges between them.

    Args:
        last_offset: of the batch before the range.
        last_max: the greatest offset that the segment can hold; a batch with a greater one does
            not move `last_offset`, because its base offset must be wrong.
        limit: offset at which the next segment begins; None: unknown.
    Raises StorageFailed.
    """
    while True:
        for batch in scanner:
            yield batch
            if batch.header.last_offset <= last_max:
                last_offset = max(last_offset, batch.header.last_offset)
        if scanner.stop is None:
            return
        corrupt = corrupt_range(scanner, scanner.stop, last_offset, limit)
        yield corrupt
        scanner.position = corrupt.end


def corrupt_range(scanner: BatchScanner, stop: ScanStop, last_offset: int, limit: int | None) -> CorruptRange:
    """The bytes from where a scan stopped to where batches begin again.

    Args: last_offset, limit: as for `scan_resyncing`.
    Raises StorageFailed.
    """
    end = resume_position(scanner.file, stop.position, stop.size, scanner.end, last_offset, limit)
    return CorruptRange(stop.position, end, *stop.fault, is_truncated=stop.is_truncated)


def resume_position(file: Readable, position: int, size: int, end: int, last_offset: int, limit: int | None) -> int:
    """Return where batches begin again after a bad one at `position`: at the end that its length
    names, if a batch begins there; else at the next batch that can be found; else `end`.

    Args: size: bytes that the bad batch's length names, 0: no possible length. Others: as for
        `scan_resyncing`.
    Raises StorageFailed.
    """
    after = position + size
    if size and after <= end:
        following = batch_at(file, after, end)
        if following is not None or after == end:
            bound = limit if following is None else first_offset(following)
            skipped = _skipped(file, position, after, last_offset, bound)
            return after if skipped is None else skipped
    resumed = next_batch(file, position + 1, end, after_offset=last_offset)
    return end if resumed is None else resumed


def _skipped(file: Readable, position: int, after: int, last_offset: int, bound: int | None) -> int | None:
    """Return where valid batches begin that the bad batch's length skips, because it is wrong;
    None: there are none.

    A record's value may look like a batch. So nothing is searched if the bad batch's own offsets
    reach up to `bound`, which follows it, and the batches must lead exactly to `after`.
    """
    base, _, _, magic, _, _, delta, *_ = HEADER.unpack(
        file.read_at(position, BATCH_OVERHEAD).ljust(BATCH_OVERHEAD, b"\0")
    )
    if bound is None or base + (delta if magic == 2 else 0) + 1 == bound:
        return None
    start = next_batch(file, position + 1, after, after_offset=last_offset)
    if start is None:
        return None
    try:
        for batch in scan(file, start, after, check=CheckLevel.CHECKSUMS, allow_truncated=False):
            if first_offset(batch.header) <= last_offset or batch.header.last_offset >= bound:
                return None
            last_offset = batch.header.last_offset
    except CorruptBatch:
        return None
    return start


class _Search:
    """One search. A pattern finds the positions whose offset, length and magic could be a batch's;
    the checksum decides.
    """

    def __init__(self, file: Readable, position: int, end: int, after_offset: int) -> None:
        self.file = file
        self.position = position
        self.end = end
        self.after_offset = after_offset
        self.work_bytes = max(WORK_FACTOR * (end - position), WORK_BYTES_MIN)
        high = max(after_offset + 1, 0) >> 32
        tops = [re.escape(struct.pack(">I", top)) for top in (high, high + 1) if top < 2**31]
        # a lookahead: the next batch may begin within bytes that only look like one
        self.pattern = re.compile(b"(?s)(?=(?:" + b"|".join(tops) + rb").{4}(?!\0{4})[\x00-\x7f].{3}.{4}[\x00-\x02])")

    def run(self) -> int | None:
        position = self.position
        while self.end - position >= _START_BYTES:
            data = self.file.read_at(position, min(CHUNK_BYTES, self.end - position))
            if len(data) < _START_BYTES:
                return None
            if data.count(0) < len(data):  # lost sectors read as zeros, which are skipped at once
                batch_position = self._in_chunk(data, position)
                if batch_position is not None:
                    return batch_position
            if self.work_bytes <= 0:
                return None
            # Chunks overlap, so that a start across two of them is found.
            position += len(data) - _START_BYTES + 1
        return None

    def _in_chunk(self, data: bytes, start: int) -> int | None:
        for match in self.pattern.finditer(data):
            at = match.start()
            if self._is_batch(data, at, start + at):
                return start + at
            if self.work_bytes <= 0:
                return None
        return None

    def _is_batch(self, data: bytes, at: int, position: int) -> bool:
        magic = data[at + MAGIC_POSITION]
        size = stated_size(data, at)
        if size < SIZE_MIN[magic] or size > min(self.end - position, BATCH_BYTES_MAX):
            return False
        self.work_bytes -= 64  # reading the header costs something too
        if magic == 2 and at + BATCH_OVERHEAD <= len(data):
            try:
                header = read_header(data, at)
            except CorruptBatch:
                return False
            if not self._fits(header):
                return False
        self.work_bytes -= size
        batch = data[at : at + size]
        if len(batch) < size:
            batch = self.file.read_at(position, size)
        try:
            return len(batch) == size and self._fits(parse_batch(batch, 0, size, check=True))
        except CorruptBatch:
            return False

    def _fits(self, header: AnyHeader) -> bool:
        return self.after_offset < first_offset(header) and header.last_offset <= self.after_offset + OFFSETS_MAX
