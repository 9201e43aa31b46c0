"""Where batches begin again behind damaged bytes.

What stands there is judged by its form and its checksum alone. A record's value may hold the bytes
of a batch, so whoever has an index that is sound takes the positions of that first.
"""

from __future__ import annotations

import re
import struct

from kqueue.base.errors import CorruptBatch
from kqueue.log.scanner.batch_scanner import Readable, Unit, first_offset
from kqueue.records.any_format import check_entry
from kqueue.records.batch import BATCH_OVERHEAD, LENGTH_FIELD_END, MAGIC_POSITION, check_crc, read_header, stated_size
from kqueue.records.message_set import read_entry

CHUNK_BYTES = 1024 * 1024
BATCH_BYTES_MAX = 128 * 1024 * 1024  # no batch is believed to be larger
WORK_FACTOR = 4  # checksums are made over this many times the bytes that are searched, and a little more
WORK_BYTES_MIN = 64 * 1024 * 1024
OFFSETS_MAX = 2**31  # a segment spans fewer
_START_BYTES = MAGIC_POSITION + 1


def next_batch(file: Readable, position: int, end: int, *, after_offset: int) -> int | None:
    """Find where the next whole batch with a right checksum begins.

    Args: position, end: bytes of the file to search; the batch lies between them. after_offset: all
    its offsets are greater, and by less than 2**31 (those of a segment are). Returns: its position;
    None: there is none, or so much looks like one that checking it all would take forever. Raises
    StorageFailed. Reads a chunk at a time, or one batch; work is bounded by a small multiple of the
    bytes searched.
    """
    return _Search(file, position, end, after_offset).run()


def batch_at(file: Readable, position: int, end: int) -> Unit | None:
    """The whole batch with a right checksum that begins at `position`; None: there is none. Raises
    StorageFailed.
    """
    start = file.read_at(position, _START_BYTES)
    if len(start) < _START_BYTES:
        return None
    size = stated_size(start, 0)
    if not BATCH_BYTES_MAX >= size > LENGTH_FIELD_END or size > end - position:
        return None
    return _whole(file.read_at(position, size), start[MAGIC_POSITION])


def _whole(data: bytes, magic: int) -> Unit | None:
    try:
        if magic == 2:
            header = read_header(data)
            check_crc(data, 0, header)
            return header
        entry = read_entry(data, 0, len(data))
        if entry is not None:
            check_entry(data, entry)
        return entry
    except CorruptBatch:
        return None


class _Search:
    """One search. A pattern finds the places whose offset, length and magic could be a batch's; the
    checksum decides.
    """

    def __init__(self, file: Readable, position: int, end: int, after_offset: int) -> None:
        self.file = file
        self.position = position
        self.end = end
        self.after_offset = after_offset
        self.work_bytes = max(WORK_FACTOR * (end - position), WORK_BYTES_MIN)
        high = max(after_offset + 1, 0) >> 32
        tops = [re.escape(struct.pack(">I", top)) for top in (high, high + 1) if top < 2**31]
        # looked at without being taken, since the next batch may begin within what only looks like
        # one
        self.pattern = re.compile(b"(?s)(?=(?:" + b"|".join(tops) + rb").{4}(?!\0{4})[\x00-\x7f].{3}.{4}[\x00-\x02])")

    def run(self) -> int | None:
        position = self.position
        while self.end - position >= _START_BYTES:
            data = self.file.read_at(position, min(CHUNK_BYTES, self.end - position))
            if len(data) < _START_BYTES:
                return None
            if data.count(0) < len(data):  # zeros, as lost sectors read, are passed over at once
                found = self._in_chunk(data, position)
                if found is not None:
                    return found
            if self.work_bytes <= 0:
                return None
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
        if size > min(self.end - position, BATCH_BYTES_MAX):
            return False
        self.work_bytes -= 64  # a look at the header is not free either
        if magic == 2 and at + BATCH_OVERHEAD <= len(data):
            try:
                header = read_header(data, at)
            except CorruptBatch:
                return False
            if not self._fits(header):
                return False
        self.work_bytes -= size
        whole = data[at : at + size]
        if len(whole) < size:
            whole = self.file.read_at(position, size)
        unit = _whole(whole, magic)
        return unit is not None and self._fits(unit)

    def _fits(self, unit: Unit) -> bool:
        return self.after_offset < first_offset(unit) and unit.last_offset <= self.after_offset + OFFSETS_MAX
