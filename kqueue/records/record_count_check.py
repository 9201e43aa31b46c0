"""Check that a produced batch holds as many records as its header counts, at a bounded cost.

It finds what a broken producer writes: another count, wrong lengths, trailing bytes, an invalid
codec frame. A batch that is crafted to pass it is found only by reading every record.

    uncompressed   up to LENGTHS_READ_MAX records: the lengths of all; otherwise those of the first
                   LENGTHS_READ_FIRST records and the last record, which is searched from the end
    compressed     the size in the codec's frame; batches of up to DECOMPRESSED_HERE_MAX bytes are
                   decompressed and checked as above
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from kqueue.base.errors import CorruptBatch, DecompressedTooLarge, InvalidRecord
from kqueue.records.batch import BATCH_OVERHEAD
from kqueue.records.codecs import CODECS
from kqueue.records.codecs.contract import Buffer
from kqueue.records.varints import VARINTS, read_raw

LENGTHS_READ_MAX: Final = 64  # later offset deltas take two bytes, so the last record can be searched for
LENGTHS_READ_FIRST: Final = 8
DECOMPRESSED_HERE_MAX = 4 * 1024
"""Compressed bytes: decompressing such a batch takes some 20 µs if it stays below
`_DECOMPRESSED_MAX`.
"""
_DECOMPRESSED_MAX = 256 * 1024
_RECORD_MIN: Final = 7  # one byte each: length, attributes, time, offset, key length, value length, header count
_LAST_WINDOW_MIN = 4096
_CANDIDATES_MAX = 16
_TIME_BYTES_MAX = 10


def check_compressed(buf: Buffer, codec_id: int, count: int, limit_bytes: int) -> None:
    """Check a compressed batch, which is all of `buf`.

    Args:
        count: records that the header counts, at least 1.
        limit_bytes: most bytes that a batch may decompress to.
    Raises: InvalidRecord: the batch can't hold these records.
    """
    if count * _RECORD_MIN > limit_bytes:
        raise InvalidRecord(
            f"expected at most {limit_bytes} bytes of records, found a batch that counts {count} records"
        )
    payload = memoryview(buf)[BATCH_OVERHEAD:]
    head = bytes(payload[:5])
    try:
        if (check := _FRAME_CHECKS.get(codec_id)) is not None:
            check(head, payload)
        if len(payload) <= DECOMPRESSED_HERE_MAX and (codec := CODECS.by_id(codec_id)) is not None:
            data = codec.decompress(payload, min(_DECOMPRESSED_MAX, limit_bytes))
            check_record_lengths(data, 0, len(data), count)
    except DecompressedTooLarge:
        return  # too large to check here
    except (CorruptBatch, IndexError, struct.error) as error:
        raise InvalidRecord(f"the compressed records of a batch can't be read: {error}") from None


def check_record_lengths(data: Buffer, start: int, end: int, count: int) -> None:
    """Check that `data[start:end]` looks like `count` records, at least 1. Raises:
    InvalidRecord.
    """
    read_count = count if count <= LENGTHS_READ_MAX else LENGTHS_READ_FIRST
    try:
        pos = _skip_records(data, start, read_count)
    except (IndexError, CorruptBatch):
        raise _wrong_count(start, end, count) from None
    if pos == end and count <= LENGTHS_READ_MAX:
        return
    remaining = count - LENGTHS_READ_FIRST
    if count <= LENGTHS_READ_MAX or end - pos < remaining * _RECORD_MIN:
        raise _wrong_count(start, end, count)
    if not _ends_with(data, pos, end, count) and not _skips_to_end(data, pos, end, remaining):
        raise _wrong_count(start, end, count)


def _skip_records(data: Buffer, pos: int, count: int) -> int:
    """Return the position after `count` records; it may exceed the data.

    Raises: CorruptBatch: a length is negative or too long. IndexError: the data ends.
    """
    for _ in range(count):
        raw = data[pos]
        if raw < 128:
            pos += 1 + (raw >> 1)
        elif (more := data[pos + 1]) < 128:
            raw = raw & 127 | more << 7
            pos += 2 + (raw >> 1)
        else:
            raw, pos = read_raw(data, pos, 32)  # type: ignore[arg-type]
            pos += raw >> 1
        if raw & 1:
            raise CorruptBatch(f"a negative record length before position {pos}")
    return pos


def _wrong_count(start: int, end: int, count: int) -> InvalidRecord:
    return InvalidRecord(
        f"expected {count} records as the batch's header counts, found {end - start} bytes that hold another number"
    )


def _ends_with(data: Buffer, pos: int, end: int, count: int) -> bool:
    """Return whether a record with the last offset ends at `end`. False is not certain: the search
    for its beginning is bounded.
    """
    window = max(4 * (end - pos) // count, _LAST_WINDOW_MIN)
    return _ends_within(bytes(memoryview(data)[max(end - window, pos) : end]), count) or (
        window < end - pos and _ends_within(bytes(memoryview(data)[pos:end]), count)
    )


def _ends_within(tail: bytes, count: int) -> bool:
    last_delta = VARINTS[count - 1]
    pos = len(tail)
    for _ in range(_CANDIDATES_MAX):
        pos = tail.rfind(last_delta, 0, pos + len(last_delta) - 1)
        if pos < 0:
            return False
        for body in range(pos - 2, max(pos - 2 - _TIME_BYTES_MAX, 0), -1):
            size = VARINTS[len(tail) - body]
            if body >= len(size) and tail[body] == 0 and tail[body - len(size) : body] == size:
                return True
    return False


def _skips_to_end(data: Buffer, pos: int, end: int, remaining: int) -> bool:
    """Return whether `remaining` records from `pos` on end at `end`.

    It reads every length: for the rare batch whose last record the search does not find.
    """
    view = bytes(memoryview(data)[pos:end])
    try:
        return _skip_records(view, 0, remaining) == len(view)
    except (IndexError, CorruptBatch):
        return False


# --- frames of codecs

_GZIP_MIN = 18  # header and trailer
_LZ4_END = bytes(4)
_WORD = struct.Struct("<I")


def _check_gzip(head: bytes, payload: memoryview) -> None:
    if len(payload) < _GZIP_MIN or head[:3] != b"\x1f\x8b\x08":
        raise CorruptBatch("expected a gzip header")
    # The trailer has the size of the last member, modulo 2**32.
    (size,) = _WORD.unpack_from(payload, len(payload) - _WORD.size)
    if size > len(payload) * 1100:  # deflate compresses 1032:1 at most
        raise CorruptBatch(f"gzip: {len(payload)} bytes can't hold the {size} that they claim")


def _check_snappy(head: bytes, payload: memoryview) -> None:
    # An element of a raw block expands 64:3 at most.
    if head != b"\x82SNAP" and read_raw(head, 0, 32)[0] > len(payload) * 64 // 3:
        raise CorruptBatch(f"snappy: {len(payload)} bytes can't hold the {read_raw(head, 0, 32)[0]} that they claim")


def _check_lz4(head: bytes, payload: memoryview) -> None:
    if head[:4] != b"\x04\x22\x4d\x18":
        raise CorruptBatch("expected an lz4 frame")
    if _LZ4_END not in (bytes(payload[-4:]), bytes(payload[-8:-4])):  # a content checksum may follow the end mark
        raise CorruptBatch("lz4: the frame is cut off")


def _check_zstd(head: bytes, payload: memoryview) -> None:
    if head[:4] != b"\x28\xb5\x2f\xfd" and not (0x50 <= head[0] <= 0x5F and head[1:4] == b"\x2a\x4d\x18"):
        raise CorruptBatch("expected a zstd frame")


_FRAME_CHECKS: dict[int, Callable[[bytes, memoryview], None]] = {
    1: _check_gzip,
    2: _check_snappy,
    3: _check_lz4,
    4: _check_zstd,
}
