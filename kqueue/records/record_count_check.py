"""A quick check that a produced batch holds the records that its header counts, at a cost that does
not grow with the records.

It finds what a broken producer writes: another count, lengths that lead elsewhere, bytes left over,
a codec's frame that is none. A client that builds a batch to pass it, bad between the records that
are looked at, is found only by reading every record.

    not compressed    up to WALKED_MAX records: the lengths of all; else of the first few, and the last record, which is found from the end
    compressed        what the codec's own frame says of its size; up to DECOMPRESSED_HERE_MAX bytes are decompressed, and walked as above
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NoReturn

from kqueue.base.errors import CorruptBatch, DecompressedTooLarge, InvalidRecord
from kqueue.records.batch import BATCH_OVERHEAD
from kqueue.records.codecs import CODECS
from kqueue.records.codecs.contract import Buffer
from kqueue.records.varints import VARINTS, read_raw

WALKED_MAX = 64  # the offset delta of any record behind them takes two bytes, which makes the last one easy to find
WALKED_FIRST = 8
DECOMPRESSED_HERE_MAX = 4 * 1024
"""Bytes of compressed records: such a batch is decompressed in some 20 µs, if it does not expand
beyond `_ROOM`.
"""
_ROOM = 256 * 1024
_RECORD_MIN = 7  # length, attributes, time, offset, key length, value length, header count: a byte each
_LAST_WINDOW_MIN = 4096
_CANDIDATES_MAX = 16
_TIME_BYTES_MAX = 10


def check_compressed(buf: Buffer, codec_id: int, count: int, limit_bytes: int) -> None:
    """Check the batch that `buf` is, compressed with the codec of this id, whose header counts
    `count` >= 1 records.

    Args: limit_bytes: what a batch may decompress to. Raises InvalidRecord: it can't hold these
    records.
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
            data = codec.decompress(payload, min(_ROOM, limit_bytes))
            check_record_lengths(data, 0, len(data), count)
    except DecompressedTooLarge:
        return  # it expands more than is looked at here
    except (CorruptBatch, IndexError, struct.error) as error:
        raise InvalidRecord(f"the compressed records of a batch can't be read: {error}") from None


def check_record_lengths(data: Buffer, start: int, end: int, count: int) -> None:
    """Check that `data` from `start` to `end` looks like `count` >= 1 records. Raises
    InvalidRecord.
    """
    pos = start
    try:
        for _ in range(count if count <= WALKED_MAX else WALKED_FIRST):
            raw = data[pos]
            if raw < 128:
                pos += 1 + (raw >> 1)
            elif (more := data[pos + 1]) < 128:
                pos += 2 + ((raw & 127 | more << 7) >> 1)
            else:
                raw, pos = read_raw(data, pos, 32)  # type: ignore[arg-type]
                pos += raw >> 1
            if raw & 1:
                _refuse(start, end, count)
    except (IndexError, CorruptBatch):
        _refuse(start, end, count)
    if pos == end and count <= WALKED_MAX:
        return
    left = count - WALKED_FIRST
    if count <= WALKED_MAX or end - pos < left * _RECORD_MIN:
        _refuse(start, end, count)
    if not _ends_with(data, pos, end, count) and not _leads_to_end(data, pos, end, left):
        _refuse(start, end, count)


def _refuse(start: int, end: int, count: int) -> NoReturn:
    raise InvalidRecord(
        f"expected {count} records as the batch's header counts, found {end - start} bytes that hold another number"
    )


def _ends_with(data: Buffer, pos: int, end: int, count: int) -> bool:
    """Whether a record with the last offset ends at `end`. False also where its beginning is not
    found soon.
    """
    window = max(4 * (end - pos) // count, _LAST_WINDOW_MIN)
    return _ends_within(bytes(memoryview(data)[max(end - window, pos) : end]), count) or (
        window < end - pos and _ends_within(bytes(memoryview(data)[pos:end]), count)
    )


def _ends_within(tail: bytes, count: int) -> bool:
    wanted = VARINTS[count - 1]
    found = len(tail)
    for _ in range(_CANDIDATES_MAX):
        found = tail.rfind(wanted, 0, found + len(wanted) - 1)
        if found < 0:
            return False
        for body in range(found - 2, max(found - 2 - _TIME_BYTES_MAX, 0), -1):
            size = VARINTS[len(tail) - body]
            if body >= len(size) and tail[body] == 0 and tail[body - len(size) : body] == size:
                return True
    return False


def _leads_to_end(data: Buffer, pos: int, end: int, left: int) -> bool:
    """Whether `left` records from `pos` on end at `end`; each is walked. For the rare batch whose
    last record is not found from the end.
    """
    view = bytes(memoryview(data)[pos:end])
    pos, end = 0, len(view)
    try:
        for _ in range(left):
            raw, pos = read_raw(view, pos, 32)
            pos += raw >> 1
            if raw & 1 or pos > end:
                return False
    except (IndexError, CorruptBatch):
        return False
    return pos == end


# --- frames of codecs

_GZIP_MIN = 18  # header and trailer
_LZ4_END = bytes(4)
_WORD = struct.Struct("<I")


def _check_gzip(head: bytes, payload: memoryview) -> None:
    if len(payload) < _GZIP_MIN or head[:3] != b"\x1f\x8b\x08":
        raise CorruptBatch("expected a gzip header")
    # the trailer tells the size of the last member, modulo 2**32; of one member alone it is all
    (size,) = _WORD.unpack_from(payload, len(payload) - _WORD.size)
    if size > len(payload) * 1100:  # deflate gains 1032 times at most
        raise CorruptBatch(f"gzip: {len(payload)} bytes can't hold the {size} that they claim")


def _check_snappy(head: bytes, payload: memoryview) -> None:
    if (
        head != b"\x82SNAP" and read_raw(head, 0, 32)[0] > len(payload) * 64 // 3
    ):  # no element of a raw block gains more
        raise CorruptBatch(f"snappy: {len(payload)} bytes can't hold the {read_raw(head, 0, 32)[0]} that they claim")


def _check_lz4(head: bytes, payload: memoryview) -> None:
    if head[:4] != b"\x04\x22\x4d\x18":
        raise CorruptBatch("expected an lz4 frame")
    if _LZ4_END not in (bytes(payload[-4:]), bytes(payload[-8:-4])):  # a checksum of the content may follow it
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
