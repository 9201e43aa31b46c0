"""Record batches of magic 2: iteration, checksum, and the fields that a broker changes in place.

`batch_header` describes the layout. The checksum covers the bytes from the attributes on, so a
broker can stamp base offset and leader epoch without computing it again. Only the records are
compressed. Compaction removes records from a batch, possibly all, and keeps its offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from kqueue.base.errors import CorruptBatch, UnsupportedCodec
from kqueue.records.batch_header import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    LENGTH_FIELD_END,
    LOG_APPEND_TIME,
    MAGIC_POSITION,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
)
from kqueue.records.codecs import CODECS, Buffer
from kqueue.records.record import ABORT, COMMIT, Headers, Record, control_key_value, decode_control, decode_records

__all__ = [
    "ABORT", "BATCH_OVERHEAD", "CODEC_MASK", "COMMIT", "CONTROL", "CRC_START", "DECOMPRESSED_BYTES_MAX",
    "DELETE_HORIZON", "HEADER", "LENGTH_FIELD_END", "LOG_APPEND_TIME", "MAGIC_POSITION", "TRANSACTIONAL",
    "BatchHeader", "Headers", "Record", "check_crc", "control_key_value", "decode_control", "decompressed",
    "iter_batches", "iter_records", "read_header", "set_log_append_time", "set_max_timestamp", "set_producer",
    "stamp", "stated_size",
]  # fmt: skip

DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024  # default limit on the decompressed bytes of one batch

_BASE_OFFSET: Final = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_LENGTH_POSITION = 8
_LEADER_EPOCH: Final = struct.Struct(">i")
_LEADER_EPOCH_POSITION = 12
_CRC = struct.Struct(">I")
_CRC_POSITION = 17
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION = 35
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_POSITION = 43


def stated_size(buf: Buffer, pos: int) -> int:
    """Return the size in bytes that the length field at `pos` states, of any magic; unchecked."""
    length: int = _LENGTH.unpack_from(buf, pos + _LENGTH_POSITION)[0]
    return length + LENGTH_FIELD_END


def iter_batches(buf: Buffer, pos: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch in `buf[pos:end]`; stop at an incomplete one.

    Checksums are not compared.
    Raises: CorruptBatch: as `read_header`.
    """
    end = len(buf) if end is None else end
    while end - pos >= BATCH_OVERHEAD:
        header = read_header(buf, pos)
        size = header.batch_length + LENGTH_FIELD_END
        if size > end - pos:
            return
        yield pos, header
        pos += size


def check_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Compare the checksum in the header with the batch's bytes.

    Raises: CorruptBatch: they differ, or the batch is incomplete.
    """
    end = pos + header.batch_length + LENGTH_FIELD_END
    if end > len(buf):
        raise CorruptBatch(f"a batch of {header.size} bytes is cut off after {len(buf) - pos} at position {pos}")
    crc = crc32c(memoryview(buf)[pos + CRC_START : end])
    if crc != header.crc:
        raise CorruptBatch(
            f"the batch at position {pos} has the checksum {header.crc:#010x}, but its bytes give {crc:#010x}"
        )


def stamp(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch in place. The checksum does not cover them."""
    _BASE_OFFSET.pack_into(buf, pos, base_offset)
    _LEADER_EPOCH.pack_into(buf, pos + _LEADER_EPOCH_POSITION, leader_epoch)


def set_log_append_time(buf: bytearray | memoryview, pos: int, time_ms: int) -> None:
    """Set the LogAppendTime `time_ms` for all records of the batch, and the checksum, in place."""
    (attributes,) = _ATTRIBUTES.unpack_from(buf, pos + _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(buf, pos + _ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME)
    set_max_timestamp(buf, pos, time_ms)


def set_max_timestamp(buf: bytearray | memoryview, pos: int, time_ms: int) -> None:
    """Set the header's max timestamp and the checksum in place."""
    _MAX_TIMESTAMP.pack_into(buf, pos + _MAX_TIMESTAMP_POSITION, time_ms)
    with memoryview(buf)[pos + CRC_START : pos + stated_size(buf, pos)] as covered:
        _CRC.pack_into(buf, pos + _CRC_POSITION, crc32c(covered))


def set_producer(buf: bytearray | memoryview, pos: int, producer_id: int, epoch: int, base_sequence: int) -> None:
    """Set the producer fields (-1: none) and the checksum in place."""
    _PRODUCER.pack_into(buf, pos + _PRODUCER_POSITION, producer_id, epoch, base_sequence)
    with memoryview(buf)[pos + CRC_START : pos + stated_size(buf, pos)] as covered:
        _CRC.pack_into(buf, pos + _CRC_POSITION, crc32c(covered))


def iter_records(buf: Buffer, pos: int = 0, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Return an iterator over the records of the batch at `pos`; keys and values are copies.

    `check_crc` compares the checksum; this function does not.
    Args: limit_bytes: most bytes that the records may decompress to, and about the most allocated.
    Raises:
        CorruptBatch: the bytes do not follow the format; the records before may have been yielded.
        UnsupportedCodec: no codec of this id is registered.
        PluginError: a plugin's codec failed.
    """
    header = read_header(buf, pos)
    return decode_records(decompressed(buf, pos, header, limit_bytes), header)


def decompressed(buf: Buffer, pos: int, header: BatchHeader, limit_bytes: int) -> bytes:
    """Return the decompressed bytes of the batch's records, at most `limit_bytes`.

    Raises: as `iter_records`.
    """
    end = pos + header.batch_length + LENGTH_FIELD_END
    if end > len(buf):
        raise CorruptBatch(f"a batch of {header.size} bytes is cut off after {len(buf) - pos} at position {pos}")
    with memoryview(buf)[pos + BATCH_OVERHEAD : end] as payload:
        codec_id = header.attributes & CODEC_MASK
        if codec_id == 0 or header.record_count == 0:  # an empty batch keeps its codec id
            return bytes(payload)
        codec = CODECS.by_id(codec_id)
        if codec is None:
            raise UnsupportedCodec(f"no codec has the id {codec_id}, which the batch at position {pos} names")
        return codec.decompress(payload, limit_bytes)
